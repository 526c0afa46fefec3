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
| `POST /log`                 | `training`, `records`, `ended`, see `Loggers`       | `warnings`                                      |
| `POST /export`              | `folder`; `merged`: LoRA as a part of the weights   | writes a PEFT or model folder for vLLM          |

Errors are `{"error": {"message", "type", "code"}}`: 400 wrong request, 401 wrong key, 408 too slow, 409 `drift` or `not_finite`,
411 and 413 for bodies without a length or too long, 503 too many connections, 507 out of memory or disk.
"""
from __future__ import annotations

if __name__ == "__main__":
    from heap import share_one_heap
    from probe import check

    share_one_heap()
    check()

import argparse
import contextlib
import hmac
import importlib.util
import io
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from answers import Conversations, parse_answer, tool_family
from bodies import (
    Problem, check_sampling, is_number, out_of_memory, read_count, read_folder, read_json, read_length, read_list, read_messages, read_number,
    read_object, read_offered, read_stop, read_temperature, stream)
from folders import PatientFile, aside, replacing
from heap import return_freed_memory
from loggers import SERVICES, Loggers
from memory import plan_memory
from policy import TransformersPolicy
from probe import fail
from sampling import Request, Sampler, Turns
from training import Sequence, Trainer
from vllm_server import Vllm, vllm_program


class Learner:
    def __init__(self, policy, options, room):
        self.policy, self.lock = policy, Turns()  # held while a batch is sampled and during an update
        self.trainer = Trainer(policy, options.learning_rate, options.micro_batch_tokens)
        self.seeds = random.Random(options.seed)  # for requests without a seed of their own
        self.vllm = Vllm(policy, options, room.vllm_share, room.cache) if room.vllm_share else None
        most_tokens = room.cache // policy.cache_bytes if policy.cache_bytes else sys.maxsize
        self.sampler = self.vllm or Sampler(policy, self.trainer, self.lock, options.batch, most_tokens, options.exact)
        self.conversations = Conversations(policy)
        self.token_text = lru_cache(65_536)(lambda token: policy.decode([token]))
        self.requests = set()
        self.loggers = Loggers(options.log)
        self.publish()

    def publish(self):
        if self.vllm:
            self.vllm.publish(self.trainer.version)

    def close(self):
        if self.vllm:
            self.vllm.close()
        self.loggers.log(None, [], ended=False, seconds=8)

    def health(self, body, client):
        return {"version": self.trainer.version, "busy": self.lock.locked() or bool(self.requests), "rewritten": self.conversations.rewritten}

    def models(self, body, client):
        model = {"id": f"policy-{self.trainer.version}", "object": "model", "created": 0, "owned_by": "osmosis"}
        return {"object": "list", "data": [model]}

    def chat(self, body, client):
        check_sampling(body)
        messages, tools, stop = self.conversations.roles(read_messages(body.get("messages"))), read_offered(body), read_stop(body.get("stop"))
        settings, _ = read_object(body, "chat_template_kwargs"), read_object(body, "stream_options")
        family = tool_family(self.policy.template)
        if tools and not family.read_calls:
            raise Problem(400, f"{self.policy.name} cannot be given tools: by its chat template it calls them in the form of {family.name}, and "
                          "only those of Hermes and Qwen, Qwen3-Coder and Llama 3 can be read.", "tools_unsupported")
        if body.get("n") not in (None, 1):
            raise Problem(400, "`n` must be 1: send one request per answer.")
        temperature, seed = read_temperature(body), read_count(body, "seed", None, -2**63, 2**63)
        limit = read_count(body, "max_completion_tokens", read_count(body, "max_tokens", None))
        owner = body.get("conversation")
        try:
            prompt = self.conversations.prompt(messages, tools, settings, owner)
        except (MemoryError, Problem):
            raise
        except Exception as error:
            raise Problem(400, f"The chat template of {self.policy.name} refuses these messages: {error}") from error
        room = self.policy.max_length - len(prompt)
        if room < 1:
            raise Problem(400, f"The prompt has {len(prompt)} tokens, and the context length is {self.policy.max_length}. Raise "
                          "max_prompt_length in [training], or --max-length where it is set.", "context_length_exceeded")
        most = min(room, limit or room)
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
        return stream(answer, body) if body.get("stream") else answer

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
        surrogate = body.get("surrogate", "ppo")
        if surrogate not in ("ppo", "cispo", "gspo"):
            raise Problem(400, f'`surrogate` must be "ppo", "cispo" or "gspo"; it is {surrogate!r}.')
        sequences = [self._read_sequence(at, data, loss) for at, data in enumerate(read_list(body, "sequences"))]
        tokens = sum(len(s.at) for s in sequences)
        if tokens == 0:
            raise Problem(400, "The masks leave no token to train: all of them are 0.")
        for sequence in sequences:
            sequence.scale = 1 / tokens if sequence.scale is None else sequence.scale
        settings = argparse.Namespace(
            surrogate=surrogate, weight_decay=read_number(body, "weight_decay", 0, 0),
            learning_rate=read_number(body, "learning_rate", self.trainer.learning_rate, 0),
            epochs=read_count(body, "epochs", 1, 1, 1000), minibatches=min(read_count(body, "minibatches", 1), len(sequences)),
            clip_low=read_number(body, "clip_low", 1 if surrogate == "cispo" else 0.2, 0, 1),
            clip_high=read_number(body, "clip_high", 5 if surrogate == "cispo" else 0.28, 0),
            kl=read_number(body, "kl", 0, 0), importance_cap=read_number(body, "importance_cap", 2, 0),
            max_grad_norm=read_number(body, "max_grad_norm", 1, 0),
            max_drift=read_number(body, "max_drift", 0.3, 0), seed=read_count(body, "seed", 0, -2**63, 2**63))
        with self.lock:
            return_freed_memory()
            try:
                figures = self.trainer.update(loss, sequences, settings)
            finally:
                return_freed_memory()
            self.publish()
        return figures

    def logprobs(self, body, client):
        sequences = []
        for at, data in enumerate(read_list(body, "sequences")):
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
        longest = max(self.policy.max_length, self.policy.longest)  # a training that continues may have a lower --max-length
        if len(ids) > longest:
            raise Problem(400, f"sequences[{index}] has {len(ids)} tokens, and the context length is {longest}.",
                          "context_length_exceeded")
        return ids

    def _read_sequence(self, index, data, loss):
        ids = self._read_ids(index, data)

        def numbers(name, default=None):
            values = data.get(name, default)
            if isinstance(values, list) and len(values) == len(ids) and all(map(is_number, values)):
                return [float(value) for value in values]
            raise Problem(400, f"sequences[{index}].{name} must be a list of {len(ids)} finite numbers, one per id.")

        same = data.get("advantage", 1 if loss == "cross_entropy" else None)
        mask, advantages = numbers("mask"), numbers("advantages", [same] * len(ids))
        if set(mask) - {0, 1} or mask[0]:
            raise Problem(400, f"sequences[{index}].mask must consist of 0 and 1, and begin with 0: nothing predicts the first token.")
        recorded = numbers("logprobs") if loss == "policy_gradient" else [0.0] * len(ids)
        version = read_count(data, "version", None, 0) if "version" in data else self.trainer.version
        return Sequence(ids, mask, recorded, advantages, read_temperature(data), read_number(data, "scale", None, 0), version)

    def save(self, body, client):
        with self.lock:
            state = {**self.trainer.state(), "seeds": self.seeds.getstate()}
            with replacing(read_folder(body)) as folder, open(folder / "state.pt", "wb") as file:
                torch.save(state, patient := PatientFile(file))
                patient.finish()
        return {"version": state["version"]}

    def load(self, body, client):
        folder = read_folder(body)
        file = next((f / "state.pt" for f in (folder, aside(folder)) if (f / "state.pt").is_file()), None)
        if file is None:
            raise Problem(400, f"{folder} has no saved state: it has no file state.pt.", "not_found")
        with self.lock:
            try:
                state = torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:
                raise Problem(400, f"{file} does not hold a saved state: {error}", "damaged") from error
            self.trainer.restore(state)
            self.seeds.setstate(state["seeds"])
            self.publish()
        return {"version": self.trainer.version}

    def export(self, body, client):
        with self.lock, replacing(read_folder(body)) as folder:
            self.policy.export(folder, **({"merged": True} if body.get("merged") else {}))
            return {"version": self.trainer.version}

    def log(self, body, client):
        records, ended = body.get("records"), body.get("ended") is True
        if not isinstance(records, list):
            raise Problem(400, "`records` must be a list.")
        return {"warnings": self.loggers.log(read_object(body, "training"), records, ended or None, seconds=30 if ended else 0)}


class Incoming(io.RawIOBase):
    """What a client sends, until a deadline."""

    def __init__(self, connection):
        self.connection, self.deadline = connection, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.connection.settimeout(max(0.001, self.deadline - time.monotonic()))
        return self.connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    protocol_version = default_request_version = "HTTP/1.1"
    patience = 60  # seconds for the head of a request, for an answer to be taken, and beside a second for each MiB for a body
    wbufsize = -1
    disable_nagle_algorithm = True
    routes = {
        "GET /health": Learner.health, "GET /v1/models": Learner.models, "POST /v1/chat/completions": Learner.chat,
        "POST /update": Learner.update, "POST /logprobs": Learner.logprobs, "POST /save": Learner.save,
        "POST /load": Learner.load, "POST /export": Learner.export, "POST /log": Learner.log}

    def setup(self):
        super().setup()
        self.incoming = Incoming(self.connection)
        self.rfile = io.BufferedReader(self.incoming)

    def handle_one_request(self):
        self.incoming.deadline = time.monotonic() + self.patience
        super().handle_one_request()

    def do_GET(self):
        status, answer = 200, None
        try:
            answer = self._handle()
        except Problem as problem:
            status, answer = problem.status, problem.body
        except ConnectionError:
            self.close_connection = True
            return
        except OSError as error:
            status, answer = 400, Problem(400, f"Cannot use the folder: {error}").body
        except RecursionError:
            status, answer = 400, Problem(400, "The body is nested too deeply.").body
        except Exception as error:
            problem = out_of_memory(error)
            if problem is None:
                traceback.print_exc()
                problem = Problem(500, f"{type(error).__name__}: {error}")
            status, answer = problem.status, problem.body
        self._send(status, answer)

    do_POST = do_GET

    def send_error(self, code, message=None, explain=None):
        self.close_connection = True
        self._send(code, Problem(code, message or "The request is malformed.").body)

    def handle_expect_100(self):
        return True  # the key comes first

    def _send(self, status, answer):
        stream = isinstance(answer, str)
        data = (answer if stream else json.dumps(answer)).encode()
        self.connection.settimeout(self.patience)
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(data)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _handle(self):
        closes, self.close_connection = self.close_connection, True  # unless its body has been read
        wanted = f"Bearer {self.server.key}".encode()
        if not hmac.compare_digest((self.headers.get("authorization") or "").encode("latin-1"), wanted):
            raise Problem(401, "The key is missing or wrong: send OSMOSIS_LEARNER_KEY as `authorization: Bearer <key>`.", "invalid_api_key")
        route = self.routes.get(f"{self.command} {self.path.split('?')[0]}")
        if route is None:
            raise Problem(404, f"No such route: {self.command} {self.path}.")
        data = self._body(read_length(self.headers))
        self.close_connection = closes
        return route(self.server.learner, read_json(data), self)

    def _body(self, length):
        if self.headers.get("expect", "").lower() == "100-continue":
            super().handle_expect_100()
            self.wfile.flush()
        self.incoming.deadline = time.monotonic() + self.patience + length / 2**20
        try:
            data = self.rfile.read(length)
        except TimeoutError as error:
            raise Problem(408, f"The body did not come within {self.patience} s and a second for each MiB.") from error
        if len(data) < length:
            raise Problem(400, f"The body ended after {len(data)} of {length} bytes.")
        return data

    def gone(self):
        """Whether the client has closed the connection."""
        # Without `select`, which takes no descriptors from 1024 on. Whatever is read or sent next sets a limit of its own.
        self.connection.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        return False

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True
    most_connections = 4096

    def __init__(self, port, learner, key):
        super().__init__(("127.0.0.1", port), Handler)
        self.learner, self.key = learner, key
        self.free = threading.BoundedSemaphore(self.most_connections)

    def process_request(self, request, client_address):
        if self.free.acquire(blocking=False):
            return super().process_request(request, client_address)
        with contextlib.suppress(OSError):
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()


def policy_class(place):
    if place is None:
        return TransformersPolicy
    file, _, name = place.rpartition(":")
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
    parser.add_argument("--lora-targets", default="all-linear", help="names of the layers that get adapters, with commas between them")
    parser.add_argument("--sampler", choices=["auto", "torch", "vllm"], default="auto", help="vLLM where it is installed and finds a GPU")
    parser.add_argument("--learning-rate", type=float, default=1e-5, help="of updates that name none")
    parser.add_argument("--seed", type=int, help="repeats answers and updates exactly on this machine, but for those of vLLM")
    parser.add_argument("--max-length", type=int, default=4096, help="tokens of a prompt and its answer")
    parser.add_argument("--batch", type=int, default=256, help="answers that are sampled at once")
    parser.add_argument("--micro-batch-tokens", type=int, help="tokens that are trained at once (default: 8192; 1024 on a CPU)")
    parser.add_argument("--threads", type=int, help="CPU threads of torch")
    parser.add_argument("--log", type=lambda names: names.split(","), default=[], help=f"what gets the figures: {', '.join(SERVICES)}")
    parser.add_argument("--policy-class", help="file.py:Class, a subclass of Policy")
    parser.add_argument("--output", default="the output above", help="the file that holds what is printed, for messages")
    parser.add_argument("--estimate", action="store_true", help="print the line without loading weights, and exit")
    options = parser.parse_args()
    key = os.environ.get("OSMOSIS_LEARNER_KEY")
    if not key and not options.estimate:
        fail("set OSMOSIS_LEARNER_KEY: the key that requests have to carry.")
    if options.sampler == "vllm" and not (vllm_program() and options.lora_rank > 0):
        fail("--sampler vllm needs vllm in this Python or on PATH, and --lora-rank above 0: it loads adapters after updates, not all weights.")
    if options.threads:
        torch.set_num_threads(options.threads)
    options.exact, options.seed = options.seed is not None, options.seed or 0
    if options.exact:
        # Some kernels of GPUs add in an order of their own. PyTorch warns where it has no others.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    # Only the line below goes to stdout, whatever the libraries print.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    make = policy_class(options.policy_class)
    policy = make(options, weights=False)
    options.micro_batch_tokens = options.micro_batch_tokens or (1024 if policy.device.type == "cpu" else 8192)
    room = plan_memory(policy, options)
    parser = tool_family(policy.template).parser
    line = {
        "model": policy.name, "revision": policy.revision, "device": str(policy.device), "dtype": str(policy.dtype).removeprefix("torch."),
        "weights": sum(w.numel() for w in policy.module.parameters()),
        "trained_weights": sum(w.numel() for w in policy.trained.values()),
        "max_length": policy.max_length, "batch": options.batch, "waits": policy.waits and not room.vllm_share,
        "conversations": room.conversations, "memory_bytes": room.needs, "sampler": "vllm" if room.vllm_share else "torch",
        "tool_parser": parser, "describes_tools": policy.describes_tools, "reasoning_parser": "qwen3" if parser and "</think>" in policy.template else None}
    if not options.estimate:
        policy = make(options)
        policy.recomputes = room.recomputes
        learner = Learner(policy, options, room)
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
