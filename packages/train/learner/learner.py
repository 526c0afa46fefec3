# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.13.*", "transformers==5.18.*", "peft==0.21.*"]
# ///
"""Serves a policy as a chat-completions endpoint on loopback, and trains it.

    OSMOSIS_LEARNER_KEY=secret uv run learner.py --model Qwen/Qwen3-0.6B

It prints one JSON line on stdout when it listens (`url`, `model`, `device`, `weights`, `memory_bytes`, …) and ends when
its stdin closes. Every request carries `Authorization: Bearer <key>`. Bodies are JSON.

| route                       | body                                                | answer                                          |
| --------------------------- | --------------------------------------------------- | ----------------------------------------------- |
| `GET /health`               |                                                     | `version`, `busy`, `rewritten`                  |
| `GET /v1/models`            |                                                     | the current version as a model                  |
| `POST /v1/chat/completions` | `messages`, `tools`, `temperature`, `max_tokens`, … | with `prompt_token_ids`, `token_ids`, logprobs  |
|                             | `conversation`: any text, equal in all its turns    |                                                 |
| `POST /update`              | `loss`, `sequences` and settings, see `Trainer`     | `version`, figures; a 409 changes nothing        |
| `POST /logprobs`            | `sequences`: `[{ids, temperature}]`                 | `logprobs` per id                               |
| `POST /save`, `POST /load`  | `folder`                                            | `version`; weights, optimizer, random state      |
| `POST /export`              | `folder`                                            | writes a PEFT or model folder for vLLM          |

Errors are `{"error": {"message", "type", "code"}}`: 400 wrong request, 401 wrong key, 409 `drift` or `not_finite`,
507 out of memory.
"""
from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import hmac
import http.client
import importlib.util
import json
import math
import os
import queue
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
import uuid
from array import array
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint


class Problem(Exception):
    """An error answer."""

    def __init__(self, status, message, code=None, **details):
        super().__init__(message)
        types = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 409: "conflict"}
        self.status = status
        self.body = {"error": {"message": message, "type": types.get(status, "server_error"), "code": code, **details}}


# --- The model -------------------------------------------------------------------------------------------------------


class Policy:
    """A causal language model with its tokenizer and chat template. Subclass it for another kind of model (`--policy-class`), with

    - `render(messages, tools, answer, **settings)`: the conversation as text; with `answer`, up to where the model's answer begins
    - `encode(text)` and `decode(ids)`
    - `hidden(ids, lengths)`: last hidden states [rows, width, size] of right-padded rows. The mask comes from the lengths, because the
      padding id can be sampled. `head(hidden)` makes logits of them.
    - `start(prompts)`: logits [rows, vocabulary] after each prompt, and a state for `step`
    - `step(state, rows, tokens)`: both after one more token for each of these rows of the state; the other rows have ended
    - `reference()`: a context in which `hidden` and `head` use the weights of the start
    - `export(folder)`: writes the model for other programs
    """

    name: str
    module: torch.nn.Module
    device = torch.device("cpu")
    dtype = torch.float32
    max_length: int
    vocabulary_size: int
    end_ids: set[int]  # each of them ends an answer
    template: str  # its text says how the model calls tools
    activation_bytes = 0  # per token, for the estimate of memory
    cache_bytes = 0  # per token that is sampled, with its prompt

    @property
    def trained(self):
        return {name: weight for name, weight in self.module.named_parameters() if weight.requires_grad}


class TransformersPolicy(Policy):
    """A model of a folder or of the Hugging Face hub; trains LoRA weights, or all weights where the rank is 0."""

    def __init__(self, options, weights=True):
        folder = Path(options.model)
        self.name = str(folder.resolve()) if folder.is_dir() else options.model
        if not folder.is_dir():
            go_offline_without_hub()
        import transformers
        from peft import LoraConfig, get_peft_model

        self.device = torch.device(pick_device(options.device))
        self.lora = options.lora_rank > 0
        # Small updates are lost when bfloat16 weights are trained themselves.
        auto = "bfloat16" if self.device.type == "cuda" and self.lora else "float32"
        self.dtype = getattr(torch, auto if options.dtype == "auto" else options.dtype)
        try:
            config = transformers.AutoConfig.from_pretrained(self.name)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.name)
            self.causal = self._load(config, weights)
        except (OSError, ValueError) as error:
            fail(f"cannot load the model {options.model}: {str(error).splitlines()[0]} "
                 "Without a connection to the hub, put the model into a folder on this machine and pass --model <folder>.")
        self.template = self.tokenizer.get_chat_template()
        self.tokenizing = threading.Lock()
        torch.manual_seed(options.seed)
        self.module = self.causal
        if self.lora:
            lora = LoraConfig(r=options.lora_rank, lora_alpha=2 * options.lora_rank, lora_dropout=0.0,
                              target_modules="all-linear", task_type="CAUSAL_LM")
            self.module = get_peft_model(self.causal, lora)
        self.module.eval()  # no dropout, in training neither: sampled and trained logprobs must agree
        if weights:
            self.module.to(self.device)

        self.config = config.get_text_config()
        self.max_length = min(options.max_length, getattr(self.config, "max_position_embeddings", options.max_length))
        self.vocabulary_size = self.config.vocab_size
        self.end_ids = self._find_end_ids()
        size, layers = self.config.hidden_size, self.config.num_hidden_layers
        heads = self.config.num_attention_heads
        head_size = getattr(self.config, "head_dim", None) or size // heads
        width = torch.finfo(self.dtype).bits // 8
        self.cache_bytes = 2 * layers * (getattr(self.config, "num_key_value_heads", None) or heads) * head_size * width
        # The input of each layer, and what one layer computes (measured with Qwen3).
        inner = getattr(self.config, "intermediate_size", 4 * size)
        self.activation_bytes = layers * size * width + (4 * size + 6 * heads * head_size + 4 * inner) * 4
        self.start_model, self.layers = None, []
        if self.causal.supports_gradient_checkpointing:
            self.causal.gradient_checkpointing_enable({"use_reentrant": False})
            self.layers = [m for m in self.causal.modules() if isinstance(m, transformers.modeling_layers.GradientCheckpointingLayer)]

    def _load(self, config, weights):
        import transformers

        if weights:
            return transformers.AutoModelForCausalLM.from_pretrained(self.name, dtype=self.dtype)
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config, dtype=self.dtype)

    def _find_end_ids(self):
        configured = [self.tokenizer.eos_token_id, getattr(self.causal.generation_config, "eos_token_id", None)]
        ids = {i for some in configured for i in (some if isinstance(some, list) else [some]) if i is not None}
        # What the template writes after an answer ends it, too: for some models another token than the configured one.
        text = self.render([{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}], None, False)
        after = self.encode(text.rsplit("answer", 1)[1])
        return ids | {i for i in after[:1] if i in self.tokenizer.added_tokens_decoder}

    def render(self, messages, tools, answer, **settings):
        import jinja2

        messages = [dict(message, **_with_objects(message)) for message in messages]
        try:
            with self.tokenizing:
                return self.tokenizer.apply_chat_template(
                    messages, tools=tools or None, add_generation_prompt=answer, tokenize=False, **settings)
        except jinja2.TemplateError as error:
            raise Problem(400, f"The chat template of {self.name} refuses these messages: {error}") from error

    def encode(self, text):
        with self.tokenizing:
            return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids):
        with self.tokenizing:
            return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def hidden(self, ids, lengths):
        mask = torch.arange(ids.shape[1], device=ids.device)[None] < lengths[:, None]
        # The backward pass computes each layer again. Only the layers themselves are in training mode, so that dropout stays off.
        self._train_layers(torch.is_grad_enabled())
        try:
            return self.causal.base_model(input_ids=ids, attention_mask=mask.long(), use_cache=False).last_hidden_state
        finally:
            self._train_layers(False)

    def _train_layers(self, on):
        for layer in self.layers:
            layer.training = on

    def head(self, hidden):
        # What some families do to their logits (Granite, Cohere, Gemma 2). A family that is missing here fails the drift check.
        logits = self.causal.get_output_embeddings()(hidden)
        logits = logits / getattr(self.config, "logits_scaling", 1) * getattr(self.config, "logit_scale", 1)
        cap = getattr(self.config, "final_logit_softcapping", None)
        return torch.tanh(logits / cap) * cap if cap else logits

    def start(self, prompts):
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts], device=self.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        return self._sampling_step(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), None)

    def step(self, state, rows, tokens):
        cache, mask, position = state
        if len(rows) < len(mask):
            cache.reorder_cache(rows)
        mask = torch.cat([mask[rows], mask.new_ones(len(rows), 1)], 1)
        return self._sampling_step(tokens[:, None], mask, position[rows] + 1, cache)

    def _sampling_step(self, ids, mask, positions, cache):
        out = self.module(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache,
                          use_cache=True, logits_to_keep=1)
        return out.logits[:, -1], (out.past_key_values, mask, positions[:, -1:])

    @contextlib.contextmanager
    def reference(self):
        if self.lora:
            with self.module.disable_adapter():
                yield
            return
        if self.start_model is None:
            self.start_model = self._load(self.causal.config, True).to(self.device).eval().requires_grad_(False)
        trained, self.causal = self.causal, self.start_model
        try:
            yield
        finally:
            self.causal = trained

    def export(self, folder):
        self.module.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _with_objects(message):
    """Templates expect the arguments of calls as objects."""
    calls = []
    for call in message.get("tool_calls") or []:
        function = dict(call["function"])
        with contextlib.suppress(ValueError, TypeError):
            function["arguments"] = json.loads(function["arguments"])
        calls.append({**call, "function": function})
    return {"tool_calls": calls} if calls else {}


def go_offline_without_hub():
    """The hub's client tries for minutes to reach it. Models that were downloaded before need no connection."""
    try:
        urllib.request.urlopen(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=5).close()
    except urllib.error.HTTPError:
        pass  # it answers
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"


def pick_device(wanted):
    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


# --- Conversations: what the model wrote, as messages and as tokens ----------------------------------------------------


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
        _, parse, _ = tool_family(template)
        content, calls = parse(content, {tool["function"]["name"]: tool["function"] for tool in tools})
    message["content"] = content if content.strip() or not calls else None
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls]
    return message


def tool_family(template):
    """How a model calls tools, by its chat template: the name of its family, a function (content, tools) -> (content without
    calls, [(name, arguments)]) or None, and the name of vLLM's parser. A call that cannot be read stays in the content."""
    families = [
        ("<arg_key>", "GLM", None, None), (r"<\|channel\|>", "gpt-oss", None, None), (r"<\|tool_call>", "Gemma", None, None),
        (r"<\|tool_call_start\|>", "LFM2", None, None), ("tool▁call", "DeepSeek", None, None), (r"\[TOOL_CALLS\]", "Mistral", None, None),
        ("<function=", "Qwen3-Coder", _xml_calls, "qwen3_coder"), ("<tool_call>", "Hermes", _hermes_calls, "hermes"),
        (r'<\|start_header_id\|>.*"parameters": ', "Llama 3", _llama_calls, "llama3_json")]
    return next((family for mark, *family in families if re.search(mark, template, re.DOTALL)), ("unknown", None, None))


def _hermes_calls(text, tools):
    return _tagged_calls(text, lambda body: _json_call(body, "arguments"))


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
        calls = [_json_call(part, "parameters") for part in parts]
        if all(call and call[0] in tools for call in calls):
            return "", calls
    return text, []


def _json_call(text, key):
    """A call in JSON; its arguments are the text that the model wrote."""
    call = _json(text)
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
    schemas, arguments = (tools.get(function[1], {}).get("parameters") or {}).get("properties") or {}, {}
    for key, value in parameter.findall(function[2]):
        schema = schemas.get(key)
        is_text = isinstance(schema, dict) and schema.get("type") == "string" or _json(value) is NO_JSON
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
        self.lock = threading.Lock()
        self.rewritten = 0

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


# --- Sampling ----------------------------------------------------------------------------------------------------------


class Request:
    def __init__(self, prompt, temperature, most, stop, seed):
        self.prompt, self.temperature, self.most, self.stop = prompt, temperature, most, stop
        self.random = random.Random(seed)
        self.ids, self.logprobs = [], []
        self.version = self.finish = self.error = self.socket = None
        self.cancelled = False
        self.done = threading.Event()

    def cancel(self):
        self.cancelled = True
        if self.socket:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


class Sampler(threading.Thread):
    """Samples the requests that arrive together, or while a batch runs, in batches of at most `batch` answers whose cache has at most
    `most_tokens`."""

    def __init__(self, policy, trainer, lock, batch, most_tokens):
        super().__init__(daemon=True)
        self.policy, self.trainer, self.lock, self.batch, self.most_tokens = policy, trainer, lock, batch, most_tokens
        self.queue = queue.Queue()
        self.start()

    def submit(self, request):
        self.queue.put(request)

    def run(self):
        while True:
            waiting = [self.queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(waiting) < 8 * self.batch:
                    waiting.append(self.queue.get(timeout=0.005))
            waiting.sort(key=lambda request: len(request.prompt))
            for at in range(0, len(waiting), self.batch):
                batch = [request for request in waiting[at : at + self.batch] if not request.cancelled]
                try:
                    with self.lock:
                        while batch:
                            batch = self.sample(batch)
                except Exception as error:
                    for request in batch:
                        if not request.done.is_set():
                            request.error = error
                            request.done.set()

    @torch.no_grad()
    def sample(self, live):
        """Samples answers to their ends. Returns the requests that found no room in the cache; they continue where they were."""
        live, parked = self._fitting(live, max(len(request.prompt) + len(request.ids) for request in live))
        logits, state = self.policy.start([request.prompt + request.ids for request in live])
        while True:
            temperature = torch.tensor([request.temperature or 1.0 for request in live], device=self.policy.device)
            logprobs = torch.log_softmax(logits.float() / temperature[:, None], -1)
            draws = torch.tensor([request.random.random() for request in live], dtype=torch.float64)
            greedy = torch.tensor([request.temperature == 0 for request in live], device=self.policy.device)
            tokens = torch.where(greedy, logprobs.argmax(-1), _pick(logprobs, draws))
            chosen = logprobs.gather(-1, tokens[:, None])[:, 0]
            if not bool(torch.isfinite(chosen).all()):
                raise Problem(500, "The model's logits are not finite: its weights are broken. Load an earlier state.", "not_finite")
            rows = {}
            for row, (request, token, logprob) in enumerate(zip(live, tokens.tolist(), chosen.tolist())):
                request.ids.append(token)
                request.logprobs.append(logprob)
                request.finish = self._finish(request)
                if request.finish or request.cancelled:
                    request.version = self.trainer.version
                    request.done.set()
                else:
                    rows[request] = row
            live, more = self._fitting(list(rows), max((len(r.prompt) + len(r.ids) for r in rows), default=0))
            parked += more
            if not live:
                return parked
            rows = torch.tensor([rows[request] for request in live], device=self.policy.device)
            logits, state = self.policy.step(state, rows, tokens[rows])

    def _fitting(self, requests, width):
        """Those that fit into the cache when the longest has this width, and the others."""
        fitting = max(1, self.most_tokens // (width + 1))
        return requests[:fitting], requests[fitting:]

    def _finish(self, request):
        if request.ids[-1] in self.policy.end_ids:
            return "stop"
        if request.stop:
            text = self.policy.decode(request.ids)
            if any(stop in text for stop in request.stop):
                return "stop"
        return "length" if len(request.ids) >= request.most else None


def _pick(logprobs, draws):
    """One token of each row: the first whose cumulated probability exceeds the draw."""
    wide = torch.float32 if logprobs.device.type == "mps" else torch.float64
    sums = logprobs.to(wide).exp().cumsum(-1)
    draws = draws.to(logprobs.device, wide)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, draws, right=True)[:, 0].clamp(max=sums.shape[1] - 1)


class Vllm:
    """Samples with `vllm serve` on the same GPU, which loads the adapter of each version by its name. It answers each request alone.

    Its logprobs are close to the trainer's and not equal, so updates weigh tokens by the truncated ratio of the two.
    """

    def __init__(self, policy, options, share):
        self.policy, self.loading, self.loaded, self.count = policy, threading.Lock(), [], 0
        self.folder = tempfile.TemporaryDirectory(prefix="osmosis-vllm-")
        self.pool = ThreadPoolExecutor(1024)
        self.key, self.port = uuid.uuid4().hex, _free_port()
        rank = next(rank for rank in (8, 16, 32, 64, 128, 256, 320, 512) if rank >= options.lora_rank)
        self.process = subprocess.Popen(
            [vllm_program(), "serve", policy.name, "--host", "127.0.0.1", "--port", str(self.port), "--enable-lora",
             "--max-lora-rank", str(rank), "--max-cpu-loras", "4", "--max-model-len", str(policy.max_length), "--dtype",
             str(policy.dtype).removeprefix("torch."), "--gpu-memory-utilization", f"{share:.2f}", "--seed", str(options.seed),
             # Logprobs of the distribution that was sampled, and none of the sampling defaults of the model's folder.
             "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"],
            env={**os.environ, "VLLM_API_KEY": self.key, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}, stdin=subprocess.DEVNULL,
            # It ends when this process is killed.
            preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM) if sys.platform == "linux" else None)
        while not self._answers():
            if self.process.poll() is not None:
                fail(f"vllm serve ended with code {self.process.returncode}; what it printed is above. Without vLLM in this Python, "
                     "the learner samples by itself.")
            time.sleep(0.5)

    def _answers(self):
        with contextlib.suppress(OSError):
            return self._send(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5), "/health") is not None
        return False

    def publish(self, version):
        """Later requests are answered by the weights of now."""
        with self.loading:
            self.count += 1
            name = f"policy-{version}-{self.count}"
            folder = Path(self.folder.name, name)
            folder.mkdir()
            self.policy.export(folder)
            self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
            self.loaded.append((name, version))
            if len(self.loaded) > 2:  # the last but one may still be answering
                old, _ = self.loaded.pop(0)
                self._post("/v1/unload_lora_adapter", {"lora_name": old})
                shutil.rmtree(Path(self.folder.name, old), ignore_errors=True)

    def submit(self, request):
        self.pool.submit(self._sample, request)

    def _sample(self, request):
        name, request.version = self.loaded[-1]
        try:
            choice = self._post("/v1/completions", {
                "model": name, "prompt": request.prompt, "max_tokens": request.most, "temperature": request.temperature,
                "seed": request.random.getrandbits(62), "stop": request.stop, "stop_token_ids": sorted(self.policy.end_ids),
                "logprobs": 0, "return_token_ids": True}, request)["choices"][0]
            request.ids, request.logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
            request.finish = "length" if choice["finish_reason"] == "length" else "stop"
        except Exception as error:
            request.error = error
        request.done.set()

    def _post(self, path, body, request=None):
        return self._send(http.client.HTTPConnection("127.0.0.1", self.port), path, body, request)

    def _send(self, connection, path, body=None, request=None):
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        with contextlib.closing(connection):
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
            if request:
                request.socket = connection.sock
            response = connection.getresponse()
            answer = response.read()
        if response.status != 200:
            raise Problem(502, f"vLLM answered {path} with {response.status}: {answer.decode(errors='replace')[:500]}", "vllm_error")
        return json.loads(answer) if answer.startswith(b"{") else answer

    def close(self):
        self.process.terminate()
        self.folder.cleanup()


def vllm_program():
    """vLLM of this Python, else of PATH."""
    own = Path(sys.executable).with_name("vllm")
    return str(own) if own.exists() else shutil.which("vllm")


def _free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


# --- Training ----------------------------------------------------------------------------------------------------------


class Sequence:
    """Token ids, and for those that were sampled (`at`) their logprobs and advantages."""

    def __init__(self, ids, mask, logprobs, advantages, temperature):
        self.ids, self.temperature = ids, temperature or 1.0
        self.at = [at for at, trained in enumerate(mask) if trained]
        self.recorded = torch.tensor([logprobs[at] for at in self.at])
        self.advantages = torch.tensor([advantages[at] for at in self.at])
        self.start = self.reference = None


class Trainer:
    """AdamW on the trained weights: clipped policy gradient, or cross-entropy.

    With `start` for the trainer's own logprobs before the update, a policy-gradient update minimizes
    -sum(weight * min(ratio * advantage, clamp(ratio, 1 - clip_low, 1 + clip_high) * advantage)) / divisor + kl * KL to the
    weights of the start, where ratio = exp(logprob - start) and weight = min(exp(start - recorded), importance_cap).
    """

    HEAD_TOKENS = 1024  # the number of tokens whose logits are in memory at once

    def __init__(self, policy, learning_rate, micro_batch_tokens):
        self.policy, self.learning_rate, self.micro_batch_tokens = policy, learning_rate, micro_batch_tokens
        self.optimizer = torch.optim.AdamW(policy.trained.values(), lr=learning_rate, weight_decay=0.0)
        self.version = 0

    def logprobs(self, batch):
        """Logprob and entropy of each sampled token of these sequences, one after the other."""
        device = self.policy.device
        lengths = torch.tensor([len(s.ids) for s in batch], device=device)
        width = max(len(s.ids) for s in batch)
        ids = torch.tensor([s.ids + [0] * (width - len(s.ids)) for s in batch], device=device)
        rows = torch.tensor([row for row, s in enumerate(batch) for _ in s.at], device=device)
        at = torch.tensor([at for s in batch for at in s.at], device=device)
        temperature = torch.tensor([s.temperature for s in batch], device=device)[rows]
        hidden = self.policy.hidden(ids, lengths)[rows, at - 1]
        parts = zip(*(part.split(self.HEAD_TOKENS) for part in (hidden, ids[rows, at], temperature)))
        # The backward pass computes the logits again: with a large vocabulary they would take most of the memory.
        scored = [checkpoint(self._score, *part, use_reentrant=False) for part in parts]
        return torch.cat([logprobs for logprobs, _ in scored]), torch.cat([entropy for _, entropy in scored])

    def _score(self, hidden, targets, temperature):
        logprobs = torch.log_softmax(self.policy.head(hidden).float() / temperature[:, None], -1)
        with torch.no_grad():
            entropy = torch.special.entr(logprobs.exp()).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropy

    def micro_batches(self, sequences):
        batch = []
        for sequence in sorted((s for s in sequences if s.at), key=lambda s: -len(s.ids)):
            if batch and len(batch[0].ids) * (len(batch) + 1) > self.micro_batch_tokens:
                yield batch
                batch = []
            batch.append(sequence)
        if batch:
            yield batch

    @torch.no_grad()
    def measure(self, sequences, name="start"):
        """Puts the own logprobs of the sampled tokens into each sequence."""
        for batch in self.micro_batches(sequences):
            values, _ = self.logprobs(batch)
            for sequence, part in zip(batch, values.split([len(s.at) for s in batch])):
                setattr(sequence, name, part)

    def update(self, loss, sequences, learning_rate, epochs, minibatches, clip_low, clip_high, kl, importance_cap,
               max_grad_norm, divisor, max_drift, seed):
        began, sequences = time.monotonic(), [s for s in sequences if s.at]
        tokens = sum(len(s.at) for s in sequences)
        drift = torch.zeros(1)
        if loss == "policy_gradient":
            self.measure(sequences)
            drift = torch.cat([(s.start.cpu() - s.recorded).abs() for s in sequences])
            self._check_drift(drift, max_drift)
        if kl:
            with self.policy.reference():
                self.measure(sequences, "reference")
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        sums = dict.fromkeys(("loss", "entropy", "clip_fraction", "kl", "grad_norm"), 0.0)
        shuffled, order, steps = random.Random(seed), list(sequences), 0
        before = self.state("cpu") if epochs * minibatches > 1 else None
        try:
            for _ in range(epochs):
                shuffled.shuffle(order)
                parts = [part for part in (order[at::minibatches] for at in range(minibatches)) if part]
                for part in parts:
                    for batch in self.micro_batches(part):
                        value, figures = self._loss(loss, batch, clip_low, clip_high, kl, importance_cap)
                        (value * len(parts) / divisor).backward()
                        for name, figure in figures.items():
                            sums[name] += float(figure)
                        sums["loss"] += float(value.detach()) / divisor
                    norm = torch.nn.utils.clip_grad_norm_(self.policy.trained.values(), max_grad_norm)
                    if not (math.isfinite(sums["loss"]) and bool(torch.isfinite(norm))):
                        raise Problem(409, "The loss or its gradient is not finite, so nothing was changed. Lower the learning rate, "
                                      "or look for extreme advantages.", "not_finite")
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    sums["grad_norm"] += float(norm)
                    steps += 1
        except BaseException:
            self.optimizer.zero_grad(set_to_none=True)
            if steps:
                self.restore(before)
            raise
        self.version += 1
        per_token = {name: sums[name] / (epochs * tokens) for name in ("entropy", "clip_fraction", "kl")}
        return {
            "version": self.version, "loss": sums["loss"] / epochs, "drift_mean": drift.mean().item(),
            "drift_max": drift.max().item(), **per_token, "grad_norm": sums["grad_norm"] / steps, "tokens": tokens,
            "sequences": len(sequences), "seconds": round(time.monotonic() - began, 3)}

    def _loss(self, loss, batch, clip_low, clip_high, kl, importance_cap):
        """The summed loss of these sequences, and sums of figures."""
        logprobs, entropy = self.logprobs(batch)
        advantages = torch.cat([s.advantages for s in batch]).to(logprobs.device)
        figures = {"entropy": entropy.sum()}
        if loss == "cross_entropy":
            value = -(logprobs * advantages).sum()
        else:
            start = torch.cat([s.start for s in batch])
            recorded = torch.cat([s.recorded for s in batch]).to(logprobs.device)
            ratio, weight = (logprobs - start).exp(), (start - recorded).exp().clamp(max=importance_cap)
            free, clipped = ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
            value = -(weight * torch.min(free, clipped)).sum()
            figures["clip_fraction"] = (clipped < free).sum()
        if kl:
            gap = torch.cat([s.reference for s in batch]) - logprobs
            penalty = (gap.exp() - gap - 1).sum()
            value = value + kl * penalty
            figures["kl"] = penalty.detach()
        return value, figures

    def _check_drift(self, drift, limit):
        mean, most = drift.mean().item(), drift.max().item()
        if not math.isfinite(mean):
            raise Problem(409, "The model's logprobs are not finite, so nothing was changed. Load an earlier state.", "not_finite")
        if mean > limit:
            raise Problem(
                409, f"The trainer's logprobs of the sampled tokens differ from the recorded ones by {mean:.3g} on average "
                f"(at most {most:.3g}; the limit of the mean is {limit:g}), so nothing was changed. Usual causes: another chat "
                "template, temperature or precision, dropout, a mask that hides the wrong tokens, padding, or wrong token ids.",
                "drift", drift_mean=mean, drift_max=most)

    def state(self, device=None):
        def copied(value):
            if isinstance(value, torch.Tensor):
                return value.detach().to(device or value.device, copy=True)
            return {key: copied(part) for key, part in value.items()} if isinstance(value, dict) else value

        moments = self.optimizer.state_dict()["state"]
        return copied({"version": self.version, "weights": self.policy.trained, "moments": moments})

    def restore(self, state):
        weights = self.policy.trained
        shapes = [{name: tuple(w.shape) for name, w in some.items()} for some in (weights, state["weights"])]
        if shapes[0] != shapes[1]:
            raise Problem(400, "The saved weights belong to another model or another LoRA rank.", "wrong_model")
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state["moments"]})
        self.version = state["version"]


# --- The routes --------------------------------------------------------------------------------------------------------


class Learner:
    def __init__(self, policy, options, cache, vllm_share):
        self.policy, self.lock = policy, threading.Lock()  # held while a batch is sampled and during an update
        self.trainer = Trainer(policy, options.learning_rate, options.micro_batch_tokens)
        self.seeds = random.Random(options.seed)  # for requests without a seed of their own
        self.vllm = Vllm(policy, options, vllm_share) if vllm_share else None
        most_tokens = cache // policy.cache_bytes if policy.cache_bytes else sys.maxsize
        self.sampler = self.vllm or Sampler(policy, self.trainer, self.lock, options.batch, most_tokens)
        self.conversations = Conversations(policy)
        self.token_text = lru_cache(65_536)(lambda token: policy.decode([token]))
        self.requests = set()
        self.publish()

    def publish(self):
        if self.vllm:
            self.vllm.publish(self.trainer.version)

    def close(self):
        if self.vllm:
            self.vllm.close()

    def health(self, body, client):
        return {"version": self.trainer.version, "busy": self.lock.locked() or bool(self.requests), "rewritten": self.conversations.rewritten}

    def models(self, body, client):
        model = {"id": f"policy-{self.trainer.version}", "object": "model", "created": 0, "owned_by": "osmosis"}
        return {"object": "list", "data": [model]}

    def chat(self, body, client):
        messages, tools = _read_messages(body.get("messages")), body.get("tools") or []
        settings = body.get("chat_template_kwargs") or {}
        if not all(isinstance(tool, dict) and "name" in (tool.get("function") or {}) for tool in tools):
            raise Problem(400, "Each of `tools` must be a function with a name.")
        family, parse, _ = tool_family(self.policy.template)
        if tools and not parse:
            raise Problem(400, f"{self.policy.name} cannot be given tools: by its chat template it calls them in the form of {family}, and "
                          "only those of Hermes and Qwen, Qwen3-Coder and Llama 3 can be read.", "tools_unsupported")
        if body.get("n") not in (None, 1):
            raise Problem(400, "`n` must be 1: send one request per answer.")
        if body.get("top_p") not in (None, 1) or body.get("top_k") not in (None, 0, -1) or body.get("min_p") not in (None, 0):
            raise Problem(400, "The logprobs of a truncated distribution cannot be trained; leave out `top_p`, `top_k` and `min_p`.")
        temperature = _number(body, "temperature", 1.0, 0, 100)
        stop = body.get("stop") or []
        stop = [stop] if isinstance(stop, str) else stop
        owner = body.get("conversation")
        prompt = self.conversations.prompt(messages, tools, settings, owner)
        room = self.policy.max_length - len(prompt)
        if room < 1:
            raise Problem(400, f"The prompt has {len(prompt)} tokens, and the context length is {self.policy.max_length}.",
                          "context_length_exceeded")
        most = min(room, int(_number(body, "max_completion_tokens", _number(body, "max_tokens", room, 1), 1)))
        seed = body.get("seed")
        request = Request(prompt, temperature, most, stop, self.seeds.getrandbits(64) if seed is None else seed)
        self.requests.add(request)
        try:
            self.sampler.submit(request)
            while not request.done.wait(0.5):
                if client.gone():
                    request.cancel()
                    raise ConnectionAbortedError
        finally:
            self.requests.discard(request)
        if request.error:
            raise request.error
        answer = self._answer(request, messages, tools, settings, owner)
        return _stream(answer, body) if body.get("stream") else answer

    def _answer(self, request, messages, tools, settings, owner):
        ended = request.ids[-1] in self.policy.end_ids
        text = self.policy.decode(request.ids[:-1] if ended else request.ids)
        cuts = [text.index(stop) for stop in request.stop if stop in text]
        text = text[: min(cuts)] if cuts else text
        opened = self.policy.decode(request.prompt[-4:]).rstrip().endswith("<think>")
        message = parse_answer("<think>" + text if opened else text, tools, self.policy.template)
        self.conversations.remember(messages, tools, settings, message, request.prompt + request.ids, owner)
        finish = "tool_calls" if message.get("tool_calls") and request.finish == "stop" else request.finish
        pieces = [(self.token_text(token), logprob) for token, logprob in zip(request.ids, request.logprobs)]
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion", "created": int(time.time()),
            "model": f"policy-{request.version}", "prompt_token_ids": request.prompt,
            "choices": [{
                "index": 0, "message": message, "finish_reason": finish, "token_ids": request.ids,
                "logprobs": {"content": [
                    # A token can be a part of a character: then its bytes are not known from its text.
                    {"token": token, "logprob": logprob, "bytes": None if "\ufffd" in token else list(token.encode()), "top_logprobs": []}
                    for token, logprob in pieces]}}],
            "usage": {"prompt_tokens": len(request.prompt), "completion_tokens": len(request.ids),
                      "total_tokens": len(request.prompt) + len(request.ids)}}

    def update(self, body, client):
        loss = body.get("loss")
        if loss not in ("policy_gradient", "cross_entropy"):
            raise Problem(400, f'`loss` must be "policy_gradient" or "cross_entropy"; it is {loss!r}.')
        sequences = [self._read_sequence(at, data, loss) for at, data in enumerate(_read_list(body, "sequences"))]
        tokens = sum(len(s.at) for s in sequences)
        if tokens == 0:
            raise Problem(400, "The masks leave no token to train: all of them are 0.")
        settings = {
            "learning_rate": _number(body, "learning_rate", self.trainer.learning_rate, 0),
            "epochs": int(_number(body, "epochs", 1, 1)), "minibatches": int(_number(body, "minibatches", 1, 1)),
            "clip_low": _number(body, "clip_low", 0.2, 0, 1), "clip_high": _number(body, "clip_high", 0.28, 0),
            "kl": _number(body, "kl", 0, 0), "importance_cap": _number(body, "importance_cap", 2, 0),
            "max_grad_norm": _number(body, "max_grad_norm", 1, 0), "divisor": _number(body, "divisor", tokens, 1e-9),
            "max_drift": _number(body, "max_drift", 0.3, 0), "seed": int(_number(body, "seed", 0, -2**63))}
        with self.lock:
            figures = self.trainer.update(loss, sequences, **settings)
            self.publish()
        return figures

    def logprobs(self, body, client):
        sequences = []
        for at, data in enumerate(_read_list(body, "sequences")):
            zeros = [0] * len(self._read_ids(at, data))
            data = {**data, "mask": [0] + [1] * (len(zeros) - 1), "logprobs": zeros, "advantage": 0}
            sequences.append(self._read_sequence(at, data, "policy_gradient"))
        with self.lock:
            self.trainer.measure(sequences)
        return {"logprobs": [[0.0] + ([] if s.start is None else s.start.tolist()) for s in sequences]}

    def _read_ids(self, index, data):
        ids = data.get("ids") if isinstance(data, dict) else None
        if not isinstance(ids, list) or not ids or not all(type(i) is int and 0 <= i < self.policy.vocabulary_size for i in ids):
            raise Problem(400, f"sequences[{index}].ids must be a list of token ids below {self.policy.vocabulary_size}.")
        if len(ids) > self.policy.max_length:
            raise Problem(400, f"sequences[{index}] has {len(ids)} tokens, and the context length is {self.policy.max_length}.",
                          "context_length_exceeded")
        return ids

    def _read_sequence(self, index, data, loss):
        ids = self._read_ids(index, data)

        def numbers(name, default=None):
            values = data.get(name, default)
            if isinstance(values, list) and len(values) == len(ids) and all(map(_is_number, values)):
                return [float(value) for value in values]
            raise Problem(400, f"sequences[{index}].{name} must be a list of {len(ids)} finite numbers, one per id.")

        same = data.get("advantage", 1 if loss == "cross_entropy" else None)
        mask, advantages = numbers("mask"), numbers("advantages", [same] * len(ids))
        if set(mask) - {0, 1} or mask[0]:
            raise Problem(400, f"sequences[{index}].mask must consist of 0 and 1, and begin with 0: nothing predicts the first token.")
        recorded = numbers("logprobs") if loss == "policy_gradient" else [0.0] * len(ids)
        return Sequence(ids, mask, recorded, advantages, _number(data, "temperature", 1.0, 0))

    def save(self, body, client):
        with self.lock:
            state = {**self.trainer.state(), "seeds": self.seeds.getstate()}
            with _replacing(_read_folder(body)) as folder, open(folder / "state.pt", "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
        return {"version": state["version"]}

    def load(self, body, client):
        folder = _read_folder(body)
        file = next((f / "state.pt" for f in (folder, _aside(folder)) if (f / "state.pt").is_file()), None)
        if file is None:
            raise Problem(400, f"{folder} has no saved state: it has no file state.pt.", "not_found")
        with self.lock:
            state = torch.load(file, map_location="cpu", weights_only=True)
            self.trainer.restore(state)
            self.seeds.setstate(state["seeds"])
            self.publish()
        return {"version": self.trainer.version}

    def export(self, body, client):
        with self.lock, _replacing(_read_folder(body)) as folder:
            self.policy.export(folder)
            return {"version": self.trainer.version}


def _stream(answer, body):
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


def _is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def _number(body, name, default, low, high=math.inf):
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not _is_number(value) or not low <= value <= high:
        limits = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise Problem(400, f"`{name}` must be a number, {limits}; it is {value!r}.")
    return value


def _read_list(body, name):
    if not isinstance(body.get(name), list) or not body[name]:
        raise Problem(400, f"`{name}` must be a list with at least one element.")
    return body[name]


def _read_folder(body):
    if not isinstance(body.get("folder"), str) or not os.path.isabs(body["folder"]):
        raise Problem(400, "`folder` must be an absolute path.")
    return Path(os.path.normpath(body["folder"]))


def _read_messages(messages):
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


def _aside(folder):
    return folder.with_name(folder.name + ".previous")


@contextlib.contextmanager
def _replacing(folder):
    """A temporary folder that takes the place of `folder` once it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}.partial")
    temporary.mkdir()
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if folder.exists():
        shutil.rmtree(_aside(folder), ignore_errors=True)
        folder.rename(_aside(folder))
    temporary.rename(folder)
    shutil.rmtree(_aside(folder), ignore_errors=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    routes = {
        "GET /health": Learner.health, "GET /v1/models": Learner.models, "POST /v1/chat/completions": Learner.chat,
        "POST /update": Learner.update, "POST /logprobs": Learner.logprobs, "POST /save": Learner.save,
        "POST /load": Learner.load, "POST /export": Learner.export}

    def do_GET(self):
        status, answer = 200, None
        try:
            answer = self._handle()
        except Problem as problem:
            status, answer = problem.status, problem.body
        except ConnectionError:
            self.close_connection = True
            return
        except Exception as error:
            problem = _out_of_memory(error)
            if problem is None:
                traceback.print_exc()
                problem = Problem(500, f"{type(error).__name__}: {error}")
            status, answer = problem.status, problem.body
        stream = isinstance(answer, str)
        data = (answer if stream else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET

    def _handle(self):
        if self.headers.get("transfer-encoding"):
            self.close_connection = True
            raise Problem(411, "Send the body with a content-length.")
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        wanted = f"Bearer {self.server.key}".encode()
        if not hmac.compare_digest((self.headers.get("authorization") or "").encode("latin-1"), wanted):
            raise Problem(401, "The key is missing or wrong: send OSMOSIS_LEARNER_KEY as `authorization: Bearer <key>`.", "invalid_api_key")
        route = self.routes.get(f"{self.command} {self.path.split('?')[0]}")
        if route is None:
            raise Problem(404, f"No such route: {self.command} {self.path}.")
        try:
            body = json.loads(data or b"{}")
        except ValueError as error:
            raise Problem(400, f"The body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Problem(400, "The body must be a JSON object.")
        return route(self.server.learner, body, self)

    def gone(self):
        """Whether the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def __init__(self, port, learner, key):
        super().__init__(("127.0.0.1", port), Handler)
        self.learner, self.key = learner, key


def _out_of_memory(error):
    text = str(error).lower()
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return Problem(507, "Out of memory, so nothing was changed. Lower --batch when it happens while sampling, --micro-batch-tokens "
                       f"when it happens in an update, or --max-length. ({str(error).splitlines()[0] if text else 'MemoryError'})", "out_of_memory")
    return None


# --- The command line --------------------------------------------------------------------------------------------------


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def memory(policy, options):
    """An estimate of the bytes that are needed, what is free now, and the fraction of the GPU that vLLM gets (0: it does not sample)."""
    weights = sum(w.numel() * w.element_size() for w in policy.module.parameters())
    optimizer = 3 * sum(w.numel() * w.element_size() for w in policy.trained.values())  # two moments and the gradient
    activations = options.micro_batch_tokens * policy.activation_bytes + 4 * 4 * Trainer.HEAD_TOKENS * policy.vocabulary_size
    free, total = free_memory(policy.device)
    share = vllm_share(policy, options, weights, (free - weights - optimizer - activations) / total - 0.05)
    # Beside the weights the sampler's cache takes half of what is free, but room for one conversation. vLLM takes its share for good.
    one = policy.max_length * policy.cache_bytes
    cache = int(share * total) or max(one, min(options.batch * one, (free - weights - optimizer) // 2))
    needed = weights + optimizer + (activations + cache if share else max(activations, cache))
    return {"weights": weights, "optimizer": optimizer, "activations": activations, "cache": cache, "needed": needed, "free": free}, share


def vllm_share(policy, options, weights, left):
    wanted = policy.device.type == "cuda" and options.lora_rank > 0 and vllm_program() and left * free_memory(policy.device)[1] > 1.3 * weights
    return max(0.05, min(left, 0.9)) if options.sampler == "vllm" or (options.sampler == "auto" and wanted) else 0


def free_memory(device):
    """Bytes that are free, and all."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info()
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError):
        return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]), total
    return total, total


def policy_class(place):
    if place is None:
        return TransformersPolicy
    file, _, name = place.rpartition(":")
    sys.modules["learner"] = sys.modules[__name__]  # so that `from learner import Policy` there is this file
    sys.path.insert(0, str(Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def main():
    parser = argparse.ArgumentParser(description="Serves a policy on loopback and trains it.")
    parser.add_argument("--model", required=True, help="folder, or name on the Hugging Face hub")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto")
    parser.add_argument("--dtype", choices=["auto", "float32", "bfloat16"], default="auto")
    parser.add_argument("--lora-rank", type=int, default=16, help="0 trains all weights")
    parser.add_argument("--sampler", choices=["auto", "torch", "vllm"], default="auto", help="vLLM where it is installed and finds a GPU")
    parser.add_argument("--learning-rate", type=float, default=1e-5, help="of updates that name none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-length", type=int, default=4096, help="tokens of a prompt and its answer")
    parser.add_argument("--batch", type=int, default=256, help="answers that are sampled at once")
    parser.add_argument("--micro-batch-tokens", type=int, default=8192, help="tokens that are trained at once")
    parser.add_argument("--threads", type=int, help="CPU threads of torch")
    parser.add_argument("--policy-class", help="file.py:Class, a subclass of Policy")
    parser.add_argument("--estimate", action="store_true", help="print the line without loading weights, and exit")
    options = parser.parse_args()
    key = os.environ.get("OSMOSIS_LEARNER_KEY")
    if not key and not options.estimate:
        fail("set OSMOSIS_LEARNER_KEY: the key that requests have to carry.")
    if options.threads:
        torch.set_num_threads(options.threads)
    # Only the line below goes to stdout, whatever the libraries print.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    make = policy_class(options.policy_class)
    policy = make(options, weights=False)
    needs, share = memory(policy, options)
    _, _, parser = tool_family(policy.template)
    line = {
        "model": policy.name, "device": str(policy.device), "dtype": str(policy.dtype).removeprefix("torch."),
        "weights": sum(w.numel() for w in policy.module.parameters()),
        "trained_weights": sum(w.numel() for w in policy.trained.values()),
        "max_length": policy.max_length, "memory_bytes": needs, "sampler": "vllm" if share else "torch",
        "tool_parser": parser, "reasoning_parser": "qwen3" if parser and "</think>" in policy.template else None}
    if not options.estimate:
        learner = Learner(make(options), options, needs["cache"], share)
        end_with_parent(learner.close)
        server = Server(options.port, learner, key)
        line = {"url": f"http://127.0.0.1:{server.server_port}", **line}
    print(json.dumps(line), file=stdout, flush=True)
    if not options.estimate:
        server.serve_forever()


def end_with_parent(close):
    def end(*_):
        close()
        os._exit(0)

    def wait():
        while sys.stdin.buffer.read(4096):
            pass
        end()

    threading.Thread(target=wait, daemon=True).start()
    signal.signal(signal.SIGTERM, end)
    if not sys.stdin.isatty():
        # Ctrl-C reaches the whole group of processes, and the parent may want to save first.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
