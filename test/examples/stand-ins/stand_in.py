"""The model server of a trainer: letters are tokens, and an answer depends only on its request."""

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Each sampled token has a logprob of its own.
sampled_tokens = itertools.count(1)


def rendered(messages):
    text = "".join(f"{message['role']}:{message['content']};" for message in messages)
    # Each prompt continues with the one before it and its answer.
    return [ord(letter) for letter in f"{text}assistant:"]


def said(messages):
    return "".join(message["content"][-1] for message in messages if message["role"] == "user")


def completion(messages):
    ids = [ord(letter) for letter in said(messages)]
    logprobs = {"content": [{"token": "", "logprob": -next(sampled_tokens) / 1024} for _ in ids]}
    message = {"role": "assistant", "content": said(messages)}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs, "token_ids": ids}
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "policy"}
    return {**answer, "choices": [choice], "prompt_token_ids": rendered(messages)}


def serve(answer):
    """Serves answer(path, headers, body) -> (status, body) on loopback; returns the URL."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answered = answer(self.path, self.headers, body)
            text = json.dumps(answered).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    http = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{http.server_port}"
