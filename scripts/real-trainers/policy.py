"""A model without weights, which serves as the policy.

A token of the model is a byte. Its prompts extend one another as conversations do, so a trainer can merge turns,
and what it should have of a rollout can be computed from the row alone.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "real-trainers"
LOGPROB = -0.5
END = "\x03"


def rendered(messages):
    return "".join(f"<{message['role']}>{message['content']}{END}" for message in messages) + "<assistant>"


def answered(messages):
    return f"I say {len(messages)}."


def ids(text):
    return list(text.encode())


def completion(body, number):
    """Of vLLM, with return_token_ids and logprobs."""
    answer = answered(body["messages"])
    logprobs = {"content": [{"token": "", "logprob": LOGPROB, "top_logprobs": []} for _ in ids(answer + END)]}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
    choice |= {"token_ids": ids(answer + END), "logprobs": logprobs}
    prompt = ids(rendered(body["messages"]))
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(answer) + 1}
    usage["total_tokens"] = sum(usage.values())
    named = {"id": f"call-{number}", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**named, "choices": [choice], "usage": usage, "prompt_token_ids": prompt}


def streamed(answer):
    """The same as one chunk."""
    choice = {**answer["choices"][0]}
    choice["delta"] = choice.pop("message")
    chunk = {**answer, "object": "chat.completion.chunk", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"


def expected(question):
    """Prompt, then answer, question and answer, with the mask of what the model said."""
    messages = [{"role": "user", "content": question}]
    prompt = rendered(messages)
    first = answered(messages) + END
    messages += [{"role": "assistant", "content": answered(messages)}, {"role": "user", "content": "Are you sure?"}]
    between = rendered(messages)[len(prompt + first) :]
    second = answered(messages) + END
    mask = [1] * len(first) + [0] * len(between) + [1] * len(second)
    return ids(prompt), ids(first + between + second), mask


def serve_policy(respond=completion, models=None):
    """Starts the model, and gives its base URL; models is what a GET is answered with."""
    count = iter(range(10**9))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send(json.dumps(models), "application/json")

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = respond(body, next(count))
            if body.get("stream"):
                self.send(streamed(answer), "text/event-stream")
            else:
                self.send(json.dumps(answer), "application/json")

        def send(self, text, kind):
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
