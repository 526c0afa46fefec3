"""What the scripts here have in common: rows for `rollout.ts`, the osmosis command, and the verdict."""

import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows(count):
    wants = ["rewarded", "rewarded", "failed", "removed"]
    return [
        {"question": f"What is {n}?", "answer": str(n / 10), "want": wants[n % len(wants)]} for n in range(count)
    ]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def osmosis(*args, **env):
    """Starts the command of this repository, with variables of the environment."""
    rollout = str(pathlib.Path(__file__).with_name("rollout.ts"))
    command = [str(ROOT / "node_modules/.bin/osmosis"), args[0], rollout, *args[1:]]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env})


def wait_for(url):
    """Until something answers there."""
    for _ in range(600):
        try:
            return urllib.request.urlopen(url).close()
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(url)


def end(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(60)


def verdict(checks):
    """Prints each check, and is the exit code."""
    for name, passed in checks.items():
        print(f"{'ok    ' if passed else 'FAILED'}  {name}")
    failed = sum(not passed for passed in checks.values())
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0
