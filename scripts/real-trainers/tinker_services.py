"""`osmosis train tinker` against the real servers of Open-RL and SkyRL, on the CPU.

    python tinker_services.py open-rl CHECKOUT [MODEL]
    python tinker_services.py skyrl CHECKOUT [MODEL]

A Qwen3 of 97,856 weights (a folder; made on the spot by default) learns the door task of examples/train. Some answers of
the server are lost, it is killed once and started again, and SkyRL's holds one model only.

Real: gateway, store, clock cycle and trainer of Open-RL in one process; API server, engine and jax backend of SkyRL.
Stand-ins: OpenTelemetry's SDK and its instrumentation of FastAPI, and `uv`, with which SkyRL starts its engine.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import harness

STEPS = 8
OSMOSIS = harness.ROOT / "node_modules/.bin/osmosis"
CONFIG = """[experiment]
rollout = "doors"
entrypoint = "main.ts"
model_path = "unused"
dataset = "doors"

[training]
n_samples_per_prompt = 8
rollout_batch_size = 8
max_prompt_length = 256
max_response_length = 64

[secrets]
required = []
"""
# One model beside the base, and batches of one size: jax compiles each size, for 20 seconds.
SKYRL = {"max_lora_adapters": 2, "max_lora_rank": 16, "sample_max_num_sequences": 32, "train_micro_batch_size": 16}
TELEMETRY = """class Nothing:
    def __init__(self, *_): pass
    def __getattr__(self, _): return lambda *_, **__: None
"""
STAND_INS = {
    "opentelemetry/sdk/trace/__init__.py": TELEMETRY
    + "from opentelemetry.trace import NoOpTracerProvider\n"
    + "class TracerProvider(NoOpTracerProvider):\n    def add_span_processor(self, *_): pass\n",
    "opentelemetry/sdk/trace/export.py": TELEMETRY + "BatchSpanProcessor = Nothing\n",
    "opentelemetry/instrumentation/fastapi.py": TELEMETRY + "FastAPIInstrumentor = Nothing()\n",
    # Pydantic refuses that of typing before Python 3.12.
    "sitecustomize.py": "import typing, typing_extensions\ntyping.TypedDict = typing_extensions.TypedDict\n",
    "uv": "#!{python}\nimport subprocess, sys\n"
    "sys.exit(subprocess.call([sys.executable, *sys.argv[sys.argv.index('-m'):]]))\n",
}


class Server:
    """A real server, in a folder that outlives it."""

    def __init__(self, kind, checkout, model, folder):
        self.port, self.folder = harness.free_port(), folder
        stand_ins = folder / "stand-ins"
        for name, text in STAND_INS.items():
            file = stand_ins / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("{python}", sys.executable))
            file.chmod(0o755)
        paths = [str(stand_ins), str(checkout), os.environ.get("PYTHONPATH", "")]
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{stand_ins}:{os.environ['PATH']}"}
        self.env["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        if kind == "open-rl":
            self.where = checkout / "src/server"
            self.env |= {"BASE_MODEL": str(model), "SAMPLING_BACKEND": "torch", "OPEN_RL_TMP_DIR": str(folder / "open-rl")}
            self.command = [sys.executable, "-m", "uvicorn", "gateway:app", "--host", "127.0.0.1", "--port", str(self.port)]
        else:
            self.where = checkout
            self.env |= {"JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(folder / "jax")}
            self.command = [sys.executable, str(stand_ins / "uv"), "run", "-m", "skyrl.tinker.api", "--host", "127.0.0.1"]
            self.command += ["--port", str(self.port), "--base-model", str(model), "--backend", "jax"]
            self.command += ["--backend-config", json.dumps(SKYRL)]
            self.command += ["--checkpoints-base", str(folder / "checkpoints"), "--database-url", f"sqlite:///{folder}/tinker.db"]

    def start(self):
        log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            self.command, cwd=self.where, env=self.env, stdout=log, stderr=log, start_new_session=True
        )
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"The server did not start; see {self.folder}/server.log")
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/healthz").close()
            except OSError:
                time.sleep(0.2)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def post(self, route, body):
        return sent(f"http://127.0.0.1:{self.port}/api/v1/{route}", json.dumps(body).encode())[1]

    def result(self, route, body):
        return self.post("retrieve_future", {"request_id": self.post(route, body)["request_id"]})


def sent(url, data, headers=None):
    headers = {"content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        content = answer.read()
        return answer, json.loads(content) if answer.headers["content-type"] == "application/json" else content


def losing(server, every):
    """A proxy that forwards to the server, and loses every so many answers. Its URL, and the number of lost ones."""
    counts = {"all": 0, "lost": 0}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            data = self.rfile.read(int(self.headers["content-length"]))
            forwarded = ("content-type", "accept", "x-api-key")
            headers = {name: self.headers[name] for name in forwarded if self.headers[name]}
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{server.port}{self.path}", data, headers)
                with urllib.request.urlopen(request, timeout=600) as answer:
                    status, kind, content = answer.status, answer.headers["content-type"], answer.read()
            except urllib.error.HTTPError as error:
                status, kind, content = error.code, error.headers["content-type"], error.read()
            except OSError:
                self.close_connection = True
                return
            counts["all"] += 1
            if counts["all"] % every == 0:
                counts["lost"] += 1
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("content-type", kind or "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    class Proxy(ThreadingHTTPServer):
        request_queue_size = 512

    proxy = Proxy(("127.0.0.1", 0), Handler)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{proxy.server_port}", counts


def workspace(folder):
    """The door task as a workspace."""
    example = harness.ROOT / "examples/train"
    for name in ("configs/training", "data", "rollouts/doors"):
        (folder / name).mkdir(parents=True)
    (folder / "configs/training/doors.toml").write_text(CONFIG)
    (folder / "package.json").write_text('{"type":"module"}')
    shutil.copy(example / "doors.jsonl", folder / "data/doors.jsonl")
    shutil.copy(example / "main.ts", folder / "rollouts/doors/main.ts")
    (folder / "node_modules").symlink_to(harness.ROOT / "node_modules")
    return folder


class Training:
    """`osmosis train tinker`, until it ends."""

    def __init__(self, folder, *args):
        command = [str(OSMOSIS), "train", "tinker", "configs/training/doors.toml", *args]
        self.text = ""
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TINKER_API_KEY": "tml-not-a-real-key"},
        )

    def until(self, pattern):
        """Reads on until a line matches, or to the end."""
        for line in self.process.stdout:
            print(f"  {line}", end="", flush=True)
            self.text += line
            if re.search(pattern, line):
                return True
        self.process.wait()
        return False

    def ended(self):
        self.until(r"(?!)")
        return self.process.returncode

    def steps(self):
        """Reward and drift of each step."""
        found = re.findall(r"^step +(\d+)  reward (\S+).*?drift (\S+)", self.text, re.M)
        return {int(step): (float(reward), float(drift)) for step, reward, drift in found}


def main(kind, checkout, model=None):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tinker-services-"))
    if model is None:
        model = folder / "model"
        program = harness.ROOT / "packages/create/templates/examples/doors/make_tiny_model.py"
        subprocess.run([sys.executable, program, model], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    server = Server(kind, pathlib.Path(checkout).resolve(), pathlib.Path(model).resolve(), folder)
    server.start()
    url, counts = losing(server, 97)
    own = {"open-rl": ["--dialect", "open-rl", "--lr", "5e-3"], "skyrl": ["--loss-reduction", "sequence_mean", "--lr", "1e-3"]}
    args = ["--url", url, "--model", str(model), "--tokenizer", str(model), "--steps", str(STEPS), *own[kind], *sys.argv[4:]]
    doors = workspace(folder / "doors")
    checks = {}
    try:
        if kind == "skyrl":
            session = server.post("create_session", {"tags": [], "sdk_version": "0.25.0"})["session_id"]
            body = {"session_id": session, "base_model": str(model), "lora_config": {"rank": 8, "seed": 1}}
            other = server.result("create_model", body)["model_id"]
            full = Training(doors, *args)
            checks["a full server is reported"] = full.ended() != 0 and "no room for another model" in full.text
            server.result("unload_model", {"model_id": other})
        began = time.monotonic()
        first = Training(doors, *args)
        first.until(r"^step +3 ")
        server.kill()
        checks["a killed server ends the training with an error"] = first.ended() == 1
        server.start()
        second = Training(doors, *args)
        checks["the same command continues, and ends"] = second.ended() == 0
        steps = first.steps() | second.steps()
        rewards = [steps[step][0] for step in sorted(steps)]
        drift = max(drift for _, drift in steps.values())
        checks["each step was made once"] = sorted(steps) == list(range(1, STEPS + 1)) and not (first.steps().keys() & second.steps().keys())
        checks[f"the reward rose: {rewards[0]:.2f} → {max(rewards[-3:]):.2f}"] = max(rewards[-3:]) > rewards[0] + 0.2
        checks[f"sampled and trained logprobs differ by {drift:.0e} at most"] = drift < 1e-3
        checks[f"{counts['lost']} answers were lost"] = counts["lost"] > 3
        checks["the key is in no message"] = "tml-not" not in first.text + second.text
        if kind == "skyrl":
            checks["the model was unloaded"] = "model_id" in server.result("create_model", {**body, "session_id": server.post("create_session", {"tags": [], "sdk_version": "0.25.0"})["session_id"]})
        print(f"{time.monotonic() - began:.0f} s; logs in {folder}")
    finally:
        server.kill()
    return harness.verdict(checks)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
