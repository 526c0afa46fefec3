"""Bodies of requests and answers."""
import json
import math
import os
import re
from pathlib import Path

import torch


class Problem(Exception):
    """An error answer."""

    def __init__(self, status, message, code=None, **details):
        super().__init__(message)
        types = {401: "authentication_error", 404: "not_found_error", 409: "conflict"}
        usual = "invalid_request_error" if status < 500 else "server_error"
        self.status = status
        self.body = {"error": {"message": message, "type": types.get(status, usual), "code": code, **details}}


def out_of_memory(error):
    text = str(error).lower()
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return Problem(507, "Out of memory, so nothing was changed. Lower sampling_batch in [training] when it happens while sampling, "
                       f"micro_batch_tokens when it happens in an update, or --max-length. ({str(error).splitlines()[0] if text else 'MemoryError'})", "out_of_memory")
    return None


def stream(answer, body):
    """The answer as vLLM streams it; it comes all at once, after sampling."""
    choice = answer["choices"][0]
    message = choice["message"]
    calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls", []))]
    delta = {key: message[key] for key in ("reasoning_content", "content") if message.get(key)}
    delta = {**delta, "tool_calls": calls} if calls else delta
    shared = {"id": answer["id"], "object": "chat.completion.chunk", "created": answer["created"], "model": answer["model"]}

    def chunk(delta, finish=None, **more):
        return {"index": 0, "delta": delta, "finish_reason": finish, **more}

    parts = [
        {**shared, "prompt_token_ids": answer["prompt_token_ids"], "choices": [chunk({"role": "assistant", "content": ""})]},
        {**shared, "choices": [chunk(delta, token_ids=choice["token_ids"], logprobs=choice["logprobs"])]},
        {**shared, "choices": [chunk({}, choice["finish_reason"])]}]
    if (body.get("stream_options") or {}).get("include_usage"):
        parts.append({**shared, "choices": [], "usage": answer["usage"]})
    return "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"


LONGEST_BODY = 2**30  # bytes


def read_length(headers):
    """Bytes of a body."""
    if headers.get("transfer-encoding"):
        raise Problem(411, "Send the body with a content-length.")
    lengths = headers.get_all("content-length") or ["0"]
    if len(lengths) > 1 or not re.fullmatch("[0-9]{1,18}", lengths[0]):
        raise Problem(400, f"content-length must be one number of bytes; it is {', '.join(lengths)[:100]}.")
    if int(lengths[0]) > LONGEST_BODY:
        raise Problem(413, f"The body may have {LONGEST_BODY} bytes; it has {lengths[0]}. Lower the number of sequences.")
    return int(lengths[0])


def read_json(data):
    """The object that a body is."""
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    try:
        body = json.loads(data.decode() or "{}", parse_constant=refuse)
        if re.search(rb"\\u[dD][89a-fA-F]", data):
            json.dumps(body, ensure_ascii=False).encode()  # refuses halves of characters
    except ValueError as error:
        raise Problem(400, f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Problem(400, f"The body must be a JSON object; it is {_shown(body)}.")
    return body


def is_number(value):
    """Whether it is a number that torch's float32 can have."""
    return type(value) in (int, float) and abs(value) <= 3e38


def read_number(body, name, default, low, high=math.inf):
    value = body.get(name)
    if value is None:
        return default
    if not is_number(value) or not low <= value <= high:
        limits = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise Problem(400, f"`{name}` must be a number, {limits}; it is {_shown(value)}.")
    return value


def read_count(body, name, default, low=1, high=math.inf):
    value = read_number(body, name, default, low, high)
    if value is not None and value != int(value):
        raise Problem(400, f"`{name}` must be a whole number; it is {value}.")
    return value and int(value)


def read_temperature(body):
    """Of a request, and of a sequence that was sampled by requests. Where they name none it is the same for both: 1."""
    value = read_number(body, "temperature", 1.0, 0, 100)
    if 0 < value < 0.001:
        raise Problem(400, f"`temperature` must be 0 or at least 0.001; it is {value}.")
    return value


def read_object(body, name):
    value = body.get(name)
    if not isinstance(value, (dict, type(None))):
        raise Problem(400, f"`{name}` must be an object; it is {_shown(value)}.")
    return value or {}


def _shown(value):
    return value if isinstance(value, float) else json.dumps(value)[:100]


def read_list(body, name):
    if not isinstance(body.get(name), list) or not body[name]:
        raise Problem(400, f"`{name}` must be a list with at least one element; it is {_shown(body.get(name))}.")
    return body[name]


def read_folder(body):
    folder = body.get("folder")
    if not isinstance(folder, str) or not os.path.isabs(folder) or "\0" in folder or os.path.normpath(folder) in ("/", "//"):
        raise Problem(400, f"`folder` must be the absolute path of a folder below /; it is {_shown(folder)}.")
    return Path(os.path.normpath(folder))


def read_tools(tools):
    def is_function(tool):
        function = tool.get("function") if isinstance(tool, dict) else None
        return isinstance(function, dict) and isinstance(function.get("name"), str) and isinstance(function.get("parameters") or {}, dict)

    if not isinstance(tools or [], list) or not all(map(is_function, tools or [])):
        raise Problem(400, "`tools` must be a list, and each of them a function with a name; `parameters` is a JSON schema. "
                      f"It is {_shown(tools)}.")
    return tools or []


# Fields that change what is sampled, and the values with which they do not.
UNCHANGED = {
    "top_p": [1], "top_k": [0, -1], "min_p": [0], "typical_p": [1], "presence_penalty": [0], "frequency_penalty": [0],
    "repetition_penalty": [1], "min_tokens": [0], "bad_words": [[]], "allowed_token_ids": [[]], "ignore_eos": [False]}
# Fields that hold an answer to a form.
CONSTRAINTS = ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs")


def check_sampling(body):
    """Refuses by name what would need another distribution than the model's own, which is the one that is trained."""
    bias = read_object(body, "logit_bias")
    changed = [name for name, values in UNCHANGED.items() if body.get(name) is not None and body[name] not in values]
    changed += ["logit_bias"] * any(value != 0 for value in bias.values())
    if changed:
        raise Problem(400, f"Only what was sampled from the model's own distribution can be trained: leave out `{changed[0]}`.", "unsupported_parameter")
    forms = [name for name in CONSTRAINTS if body.get(name) is not None]
    # A framework asks for a structured output with one of these. The policy learns to give it: an answer without it is graded.
    form = body.get("response_format")
    if form is not None and not (isinstance(form, dict) and form.get("type") in ("text", "json_object", "json_schema")):
        forms.insert(0, "response_format")
    if forms:
        raise Problem(400, f"The learner cannot hold answers to a form: leave out `{forms[0]}`, and ask for the form in a message.", "unsupported_parameter")


def read_offered(body):
    """The tools that the model may call: none with `tool_choice` none. A call cannot be forced without another distribution."""
    for name in ("functions", "function_call"):
        if body.get(name) not in (None, "auto", []):
            raise Problem(400, f"`{name}` is not supported: pass `tools` and `tool_choice`.", "unsupported_parameter")
    tools, choice = read_tools(body.get("tools")), body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise Problem(400, f"`tool_choice` must be auto or none; it is {_shown(choice)}, and the learner cannot force a call.", "unsupported_parameter")
    return [] if choice == "none" else tools


def read_stop(stop):
    texts = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise Problem(400, f"`stop` must be a text or a list of texts that are not empty; it is {_shown(stop)}.")
    return texts


def read_messages(messages):
    if not isinstance(messages, list) or not messages:
        raise Problem(400, f"`messages` must be a list with at least one message; it is {_shown(messages)}.")
    read = []
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Problem(400, f"messages[{at}] must be an object with a `role`; it is {_shown(message)}.")
        content = message.get("content")
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
            content = "".join(texts) if len(texts) == len(content) and all(isinstance(text, str) for text in texts) else content
        if any(not isinstance(text, (str, type(None))) for text in (content, message.get("reasoning_content"))):
            raise Problem(400, f"messages[{at}] has content that is not text.")
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(map(_is_call, calls)):
            raise Problem(400, f"messages[{at}] has a tool call without the name or the arguments of its function.")
        read.append({**message, "content": content or ""})
        if not message.get("tool_calls"):
            read[-1].pop("tool_calls", None)
    return read


def _is_call(call):
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str) and isinstance(function.get("arguments"), (str, dict))
