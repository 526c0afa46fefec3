"""Bodies of requests and answers, and the folders that requests name."""
import contextlib
import errno
import json
import math
import os
import shutil
import sys
import uuid
from pathlib import Path

import torch


class Problem(Exception):
    """An error answer."""

    def __init__(self, status, message, code=None, **details):
        super().__init__(message)
        types = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 409: "conflict"}
        self.status = status
        self.body = {"error": {"message": message, "type": types.get(status, "server_error"), "code": code, **details}}


def out_of_memory(error):
    text = str(error).lower()
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return Problem(507, "Out of memory, so nothing was changed. Lower --batch when it happens while sampling, --micro-batch-tokens "
                       f"when it happens in an update, or --max-length. ({str(error).splitlines()[0] if text else 'MemoryError'})", "out_of_memory")
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


def is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def read_number(body, name, default, low, high=math.inf):
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not is_number(value) or not low <= value <= high:
        limits = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise Problem(400, f"`{name}` must be a number, {limits}; it is {value!r}.")
    return value


def read_list(body, name):
    if not isinstance(body.get(name), list) or not body[name]:
        raise Problem(400, f"`{name}` must be a list with at least one element.")
    return body[name]


def read_folder(body):
    if not isinstance(body.get("folder"), str) or not os.path.isabs(body["folder"]):
        raise Problem(400, "`folder` must be an absolute path.")
    return Path(os.path.normpath(body["folder"]))


def read_messages(messages):
    if not isinstance(messages, list) or not messages:
        raise Problem(400, "`messages` must be a list with at least one message.")
    read = []
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Problem(400, f"messages[{at}] must be an object with a `role`.")
        content = message.get("content")
        if isinstance(content, list):
            if any(part.get("type") != "text" for part in content):
                raise Problem(400, f"messages[{at}] has content that is not text.")
            content = "".join(part["text"] for part in content)
        calls = message.get("tool_calls") or []
        if not all(isinstance(call, dict) and {"name", "arguments"} <= (call.get("function") or {}).keys() for call in calls):
            raise Problem(400, f"messages[{at}] has a tool call without the name or the arguments of its function.")
        read.append({**message, "content": content or ""})
        if not message.get("tool_calls"):
            read[-1].pop("tool_calls", None)
    return read


def aside(folder):
    return folder.with_name(folder.name + ".previous")


@contextlib.contextmanager
def replacing(folder):
    """A temporary folder that takes the place of `folder` once it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}.partial")
    temporary.mkdir()
    try:
        yield temporary
    except BaseException as error:
        free = shutil.disk_usage(temporary).free
        shutil.rmtree(temporary, ignore_errors=True)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Problem(507, f"Cannot write to {folder}: the disk is full or has a limit. {free // 2**20} MiB are free there. Free some, and "
                          "continue with the training.", "disk_full") from error
        raise
    if folder.exists():
        shutil.rmtree(aside(folder), ignore_errors=True)
        folder.rename(aside(folder))
    temporary.rename(folder)
    shutil.rmtree(aside(folder), ignore_errors=True)


class PatientFile:
    """A file for `torch.save`, which ends the process when it cannot write: the error is raised by `finish`."""

    def __init__(self, file):
        self.file, self.error = file, None

    def write(self, data):
        try:
            if self.error is None:
                self.file.write(data)
        except OSError as error:
            self.error = error
        return len(data)

    def flush(self):
        pass

    def finish(self):
        if self.error:
            raise self.error
        self.file.flush()
        os.fsync(self.file.fileno())


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)
