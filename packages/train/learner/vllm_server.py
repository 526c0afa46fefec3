"""Sampling by vLLM. It was tested with a stand-in that speaks the same routes, not on a GPU."""
import contextlib
import ctypes
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
    """Samples with `vllm serve` on the same GPU, which loads the adapter of each version by its name. It answers each request alone.

    Its logprobs are close to the trainer's and not equal, so updates weigh tokens by the truncated ratio of the two.
    """

    def __init__(self, policy, options, share):
        self.policy, self.loading, self.loaded, self.count = policy, threading.Lock(), [], 0
        self.folder = tempfile.TemporaryDirectory(prefix="osmosis-vllm-")
        self.pool = ThreadPoolExecutor(1024)
        self.key, self.port = uuid.uuid4().hex, _free_port()
        rank = next((rank for rank in (8, 16, 32, 64, 128, 256, 320) if rank >= options.lora_rank), 512)
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
                fail(f"vllm serve ended with code {self.process.returncode}; what it printed is above. With --sampler torch the "
                     "learner does without it.")
            time.sleep(0.5)

    def _answers(self):
        with contextlib.suppress(Problem):
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
        try:
            with contextlib.closing(connection):
                connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
                if request:
                    request.socket = connection.sock
                response = connection.getresponse()
                answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            code = self.process.poll()
            state = "is running" if code is None else f"has ended with code {code}"
            raise Problem(502, f"vLLM did not answer {path} ({error!r}); it {state}.", "vllm_error") from error
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
