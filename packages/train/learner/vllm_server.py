"""Sampling by vLLM, in processes of its own."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bodies import Problem
from probe import fail


class Vllm:
    """Samples with `vllm serve` on the same device, which loads the adapter of each version by its name. It answers each request alone.

    Its logprobs are close to the trainer's and not equal, so updates weigh tokens by the truncated ratio of the two.
    """

    START_SECONDS = 1800  # a large model is read, and its kernels are compiled

    def __init__(self, policy, options, share, cache):
        self.policy, self.loading, self.loaded, self.count = policy, threading.Lock(), [], 0
        self.folder = _new_folder()
        self.printed = f"what it printed is in {options.output}"
        self.pool = ThreadPoolExecutor(1024)
        self.key, self.port = uuid.uuid4().hex, _free_port()
        rank = next((rank for rank in (8, 16, 32, 64, 128, 256, 320) if rank >= options.lora_rank), 512)
        if policy.device.type == "cuda":
            place = ["--gpu-memory-utilization", f"{share:.2f}"]
        else:
            # On a CPU the engine of vLLM 0.32 ends at a seeded request whose prompt is computed in parts.
            whole = ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(2048, policy.max_length))]
            place = ["--kv-cache-memory-bytes", str(cache), *whole]
        self.group = ProcessGroup(
            [vllm_program(), "serve", policy.name, "--host", "127.0.0.1", "--port", str(self.port), "--enable-lora",
             "--max-lora-rank", str(rank), "--max-cpu-loras", "4", "--max-model-len", str(policy.max_length), "--dtype",
             str(policy.dtype).removeprefix("torch."), *place, "--seed", str(options.seed),
             # Answers of the last version end beside those of the next one: with one place they would wait for each other.
             "--max-loras", "2",
             # Logprobs of the distribution that was sampled, and none of the sampling defaults of the model's folder.
             "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm",
             "--disable-uvicorn-access-log"],
            {**os.environ, "VLLM_API_KEY": self.key, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"})
        began = time.monotonic()
        while not self._answers():
            if (code := self.group.poll()) is not None:
                self.group.end()
                fail(f"vllm serve {_how(code)} before it listened; {self.printed}. With --sampler torch the learner does without it.")
            if time.monotonic() > began + self.START_SECONDS:
                self.group.end()
                fail(f"vllm serve did not listen within {self.START_SECONDS // 60} minutes; {self.printed}. With --sampler torch the learner "
                     "does without it.")
            time.sleep(0.5)
        threading.Thread(target=self._watch, daemon=True).start()

    def _answers(self):
        with contextlib.suppress(Problem):
            return self._send(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5), "/health") is not None
        return False

    def _watch(self):
        """Nothing can be sampled without vLLM, so the learner ends with it, and says why."""
        code = self.group.wait()
        if not self.group.is_ending:
            self._end_learner(f"vllm serve {_how(code)} while it sampled for the training; {self.printed}.")

    def _end_learner(self, reason):
        self.close()
        with contextlib.suppress(SystemExit):
            fail(f"{reason} Start the training again with the same command: it goes on from its last checkpoint.")
        sys.stderr.flush()
        os._exit(78)

    def publish(self, version):
        """Later requests are answered by the weights of now."""
        with self.loading:
            self.count += 1
            name = f"policy-{version}-{self.count}"
            folder = self.folder / name
            folder.mkdir()
            try:
                self.policy.export(folder)
                self._post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
            except (OSError, Problem) as error:
                # The weights have changed already, so the update cannot be refused any more.
                self._end_learner(f"vLLM cannot sample with version {version}: {error}.")
            self.loaded.append((name, version))
            if len(self.loaded) > 2:  # the last but one may still be answering
                old, _ = self.loaded.pop(0)
                self._post("/v1/unload_lora_adapter", {"lora_name": old})
                shutil.rmtree(self.folder / old, ignore_errors=True)

    def submit(self, request):
        # vLLM refuses what is above, and raises what is below without a word. At 0 it takes the most likely token, as the learner does.
        if request.temperature and not 0.01 <= request.temperature <= 2:
            raise Problem(400, f"vLLM samples at temperatures from 0.01 to 2, and the request asks for {request.temperature:g}. Ask for one of "
                          "those, or train with --sampler torch.", "unsupported_parameter")
        self.pool.submit(self._sample, request)

    def _sample(self, request):
        name, request.version = self.loaded[-1]
        try:
            choice = self._post("/v1/completions", {
                "model": name, "prompt": request.prompt, "max_tokens": request.most, "temperature": request.temperature,
                "seed": request.random.getrandbits(62), "stop": request.stop, "stop_token_ids": sorted(self.policy.end_ids),
                # Stop texts may be special tokens.
                "skip_special_tokens": False, "logprobs": 0, "return_token_ids": True}, request)["choices"][0]
            request.ids, request.logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
            request.finish = "length" if choice["finish_reason"] == "length" else "stop"
        except Exception as error:
            request.error = error
        request.done.set()

    def _post(self, path, body, request=None):
        return self._send(http.client.HTTPConnection("127.0.0.1", self.port), path, body, request)

    def _send(self, connection, path, body=None, request=None):
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        try:
            with contextlib.closing(connection):
                connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
                if request:
                    request.socket = connection.sock
                response = connection.getresponse()
                answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            code = self.group.poll()
            state = "is running" if code is None else _how(code)
            raise Problem(502, f"vLLM did not answer {path} ({error!r}); it {state}.", "vllm_error") from error
        if response.status != 200:
            is_refused = path == "/v1/completions" and 400 <= response.status < 500
            raise Problem(response.status if is_refused else 502, f"vLLM answered {path} with {response.status}: {answer.decode(errors='replace')[:500]}", "vllm_error")
        return json.loads(answer) if answer.startswith(b"{") else answer

    def close(self):
        self.group.end()
        shutil.rmtree(self.folder, ignore_errors=True)


class ProcessGroup:
    """A program and all that it starts. They end with this process, even when that is killed."""

    # It ends the group when its input ends without a byte, which a kill of the learner causes.
    GUARD = """
import os, signal, sys, time
group = int(sys.argv[1])
if not sys.stdin.buffer.read(1):
    try:
        os.killpg(group, signal.SIGTERM)
        for _ in range(100):
            os.killpg(group, 0)
            time.sleep(0.1)
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # there is no such group any more
"""

    def __init__(self, command, environment):
        # Ctrl-C reaches the group of the terminal, and not this one.
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
        self.guard = subprocess.Popen(
            [sys.executable, "-c", self.GUARD, str(self.process.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        self.is_ending, self.ending = False, threading.Lock()

    def poll(self):
        return self.process.poll()

    def wait(self):
        return self.process.wait()

    def end(self):
        """Returns when no process of the group is left, or when even SIGKILL did not end one in 5 seconds."""
        self.is_ending = True
        with self.ending, contextlib.suppress(OSError, ValueError):  # they say that the group, or the guard, has ended
            for number, seconds in ((signal.SIGTERM, 6), (signal.SIGKILL, 5)):
                os.killpg(self.process.pid, number)
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline:
                    self.process.poll()
                    os.killpg(self.process.pid, 0)
                    time.sleep(0.05)
        with contextlib.suppress(OSError, ValueError):
            self.guard.communicate(b"ended\n", timeout=5)


def _how(code):
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _new_folder():
    """A folder for adapters. Those of learners that were killed are removed."""
    for folder in Path(tempfile.gettempdir()).glob("osmosis-vllm-*-*"):
        owner = folder.name.split("-")[2]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"osmosis-vllm-{os.getpid()}-"))


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # that of another user
    return True


def vllm_program():
    """vLLM of this Python, else of PATH."""
    own = Path(sys.executable).with_name("vllm")
    return str(own) if own.exists() else shutil.which("vllm")


def _free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
