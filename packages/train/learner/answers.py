"""What the model wrote, as messages and as tokens."""
import contextlib
import hashlib
import json
import re
import threading
import uuid
from array import array
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import schema_types
from bodies import Problem
from described_tools import HEAD as DESCRIBED


def parse_answer(text, tools, template):
    """The assistant message that the model wrote."""
    message, content, calls = {"role": "assistant"}, text, []
    if "</think>" in template:
        # A call within the thinking is none, also where the answer was cut off there.
        thinking = re.match(r"\s*<think>(.*?)(?:</think>(.*)|\Z)", text, re.DOTALL)
        if thinking:
            message["reasoning_content"] = thinking[1].strip("\n")
            content = (thinking[2] or "").lstrip("\n")
    if tools:
        content, calls = tool_family(template).read_calls(content, {tool["function"]["name"]: tool["function"] for tool in tools})
    message["content"] = content if content.strip() or not calls else None
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls]
    return message


@dataclass(frozen=True)
class ToolFamily:
    """How models call tools. `read_calls`: a function (content, tools) -> (content without calls, [(name, arguments)]); None where calls
    cannot be read. One that cannot be read stays in the content. `parser`: vLLM's name of it."""

    name: str
    read_calls: Callable | None = None
    parser: str | None = None


def tool_family(template: str) -> ToolFamily:
    """The family of a model, by its chat template."""
    hermes = ToolFamily("Hermes", _hermes_calls, "hermes")
    families = {
        DESCRIBED: hermes,
        "<arg_key>": ToolFamily("GLM"),
        r"<\|channel\|>": ToolFamily("gpt-oss"),
        r"<\|tool_call>": ToolFamily("Gemma"),
        r"<\|tool_call_start\|>": ToolFamily("LFM2"),
        "tool▁call": ToolFamily("DeepSeek"),
        r"\[TOOL_CALLS\]": ToolFamily("Mistral"),
        "<tool_call>.*<function=": ToolFamily("Qwen3-Coder", _xml_calls, "qwen3_coder"),
        "<tool_call>": hermes,
        r'<\|start_header_id\|>.*"parameters": ': ToolFamily("Llama 3", _llama_calls, "llama3_json")}
    found = (family for mark, family in families.items() if re.search(mark, template, re.DOTALL))
    return next(found, ToolFamily("an unknown family"))


def _hermes_calls(text, tools):
    return _tagged_calls(text, lambda body: _json_call(body, "arguments", "parameters"))


def _xml_calls(text, tools):
    return _tagged_calls(text, lambda body: _xml_call(body, tools))


def _tagged_calls(text, parse):
    calls, outside, at = [], [], 0
    for match in re.finditer(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL):
        call = parse(match[1])
        if call:
            calls.append(call)
            outside.append(text[at : match.start()])
            at = match.end()
    outside.append(text[at:])
    return (text, calls) if not calls else ("".join(part.rstrip("\n") for part in outside), calls)


def _llama_calls(text, tools):
    """The whole answer is {"name": …, "parameters": …}; several are separated by semicolons."""
    body = text.strip().removeprefix("<|python_tag|>")
    for parts in ([body], re.split(r"(?<=\})\s*;\s*(?=\{)", body)):
        calls = [_json_call(part, "parameters", "arguments") for part in parts]
        if all(call and call[0] in tools for call in calls):
            return "", calls
    return text, []


def _json_call(text, *keys):
    """A call in JSON; its arguments are the text that the model wrote, under one of these keys."""
    call = _json(text)
    key = next((key for key in keys if isinstance(call, dict) and key in call), keys[0])
    name, arguments = (call.get("name"), call.get(key, {})) if isinstance(call, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    for match in re.finditer(rf'"{key}"\s*:\s*', text):
        with contextlib.suppress(ValueError):
            value, end = json.JSONDecoder().raw_decode(text, match.end())
            if value == arguments:
                return name, text[match.end() : end]
    return name, json.dumps(arguments)


def _xml_call(text, tools):
    """Qwen3-Coder: <function=name><parameter=key>value</parameter></function>."""
    function = re.fullmatch(r"\s*<function=([^>\n]+)>(.*)</function>\s*", text, re.DOTALL)
    parameter = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
    if not function or parameter.sub("", function[2]).strip():
        return None
    root, arguments = tools.get(function[1], {}).get("parameters"), {}
    for key, value in parameter.findall(function[2]):
        parsed = _json(value)
        is_text = parsed is NO_JSON or schema_types.is_text(value, parsed, schema_types.of_parameter(root, key), root)
        arguments[key] = json.dumps(value, ensure_ascii=False) if is_text else value.strip()
    members = [f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in arguments.items()]
    return function[1], "{" + ", ".join(members) + "}"


NO_JSON = object()


def _json(text):
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return NO_JSON


class Conversations:
    """Remembers the tokens of answers, so that a next turn extends what was sampled instead of encoding its text again."""

    EMPTY_THINKING = re.compile(r"<think>\s*</think>\n*")

    def __init__(self, policy, most=16_384):
        self.policy, self.most = policy, most
        self.answers = OrderedDict()
        self.lost = OrderedDict()  # places of messages that the template leaves out, by the form of the conversation
        self.lock = threading.Lock()
        self.rewritten = 0

    def roles(self, messages):
        """The messages with roles that the model was trained with: `developer` is another name of `system`."""
        if "developer" in self.policy.template:
            return messages
        return [{**message, "role": "system"} if message["role"] == "developer" else message for message in messages]

    def _check_reached(self, messages, tools, settings, last):
        """A template leaves out what it does not know without a word. From `last` on, messages have not been answered before."""
        form = [(m["role"], bool((m.get("content") or "").strip()), bool(m.get("tool_calls")), sorted(m)) for m in messages]
        key = hashlib.sha256(json.dumps([form, bool(tools), settings], sort_keys=True).encode()).digest()
        with self.lock:
            lost = self.lost.get(key)
        if lost is None:
            marks = [f"text-of-message-{at}-here" for at in range(len(messages))]
            marked = [{**m, "content": mark} if written else m for m, mark, (_, written, *_) in zip(messages, marks, form)]
            try:
                text = self.policy.render(marked, tools, True, **settings)
                lost = [at for at, mark in enumerate(marks) if form[at][1] and mark not in text]
            except Exception:
                lost = []  # a template that looks into contents and wants others
            with self.lock:
                self.lost[key] = lost
                while len(self.lost) > self.most:
                    self.lost.popitem(last=False)
        at = next((at for at in lost if at >= last), None)
        if at is not None:
            raise Problem(400, f"The chat template of {self.policy.name} leaves out the text of messages[{at}], whose role is "
                          f"{json.dumps(messages[at]['role'])}: the model would not see it. Give it a role that the template knows.", "message_left_out")

    def prompt(self, messages, tools, settings, owner=None):
        messages, known, last = list(messages), None, 0
        with self.lock:
            for at, key in enumerate(_keys(messages, tools, settings, owner)):
                if key in self.answers:
                    self.answers.move_to_end(key)
                    known, reasoning = self.answers[key]
                    last = at + 1
                    if reasoning:  # a client may leave it out
                        messages[at] = {**messages[at], "reasoning_content": reasoning}
        whole = self.policy.render(messages, tools, True, **settings)
        self._check_reached(messages, tools, settings, last)
        if known is None:
            return self.policy.encode(whole)
        more = self._continuation(self.policy.render(messages[:last], tools, False, **settings), whole, known)
        if more is None:
            self.rewritten += 1
            return self.policy.encode(whole)
        return [*known, *more]

    def _continuation(self, before, whole, ids):
        """The tokens between the end of an answer and the next one; None where the template changes what came before."""
        # Qwen3 writes an empty block into the last answer, and leaves it out once a message follows.
        before = next((text for text in (before, self.EMPTY_THINKING.sub("", before)) if whole.startswith(text)), None)
        if before is None:
            return None
        ends = [text for text in (self.policy.decode([i]) for i in self.policy.end_ids) if text]
        at = max((before.rfind(end) for end in ends), default=-1)
        end = next((end for end in ends if at >= 0 and before.startswith(end, at)), "")
        if at < 0 or before[at + len(end) :].strip():
            at = len(before)  # in some templates the next message's first token ends the answer
        more = self.policy.encode(whole[at:])
        if ids[-1] in self.policy.end_ids:
            if not more or more[0] not in self.policy.end_ids:
                return None
            return more[1:]
        return more

    def remember(self, messages, tools, settings, message, ids, owner=None):
        without = {key: value for key, value in message.items() if key != "reasoning_content"}
        with self.lock:
            for answer in (without, message):
                *_, key = _keys([*messages, answer], tools, settings, owner)
                self.answers[key] = (array("i", ids), message.get("reasoning_content"))
                self.answers.move_to_end(key)
            while len(self.answers) > self.most:
                self.answers.popitem(last=False)


def _keys(messages, tools, settings, owner):
    """For each message a hash of the conversation up to it. Null, "" and [] are the same as a missing field. Two conversations
    that say the same have other tokens and other thinking, which their `owner` tells apart."""
    digest = hashlib.sha256(json.dumps([tools or None, settings, owner], sort_keys=True).encode())
    for message in messages:
        fields = {key: value for key, value in message.items() if value not in (None, "", [])}
        if message["role"] == "assistant":
            fields = {key: fields.get(key) for key in ("role", "content", "reasoning_content")}
            fields["calls"] = [
                [call.get("id"), call["function"]["name"], call["function"]["arguments"]]
                for call in message.get("tool_calls") or []]
        digest.update(json.dumps(fields, sort_keys=True).encode())
        yield digest.hexdigest()
