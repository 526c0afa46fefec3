"""Starts learner.py and speaks HTTP with it."""
import http.client
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
LEARNER = HERE.parent.parent / "learner" / "learner.py"
KEY = "key-of-the-tests"
READ_NOTE = {"type": "function", "function": {
    "name": "read_note", "description": "Reads the note that the code is written on.",
    "parameters": {"type": "object", "properties": {}}}}


class LearnerProcess:
    def __init__(self, *flags, stderr=None, **environment):
        self.process = subprocess.Popen(
            [sys.executable, str(LEARNER), *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            env={**os.environ, "OSMOSIS_LEARNER_KEY": KEY, "OMP_NUM_THREADS": "1", **environment}, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"learner.py ended with code {self.process.wait()}")
        self.ready = json.loads(line)
        self.address = self.ready["url"].removeprefix("http://")

    def request(self, path, body=None, key=KEY):
        """Status and parsed body (text, where it is not JSON)."""
        connection = http.client.HTTPConnection(self.address, timeout=300)
        headers = {"authorization": f"Bearer {key}"}
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read().decode()
        connection.close()
        return response.status, json.loads(data) if response.headers["content-type"] == "application/json" else data

    def post(self, path, body):
        status, answer = self.request(path, body)
        if status != 200:
            raise AssertionError(f"{path} answered {status}: {answer}")
        return answer

    def chat(self, messages, tools=(READ_NOTE,), **settings):
        return self.post("/v1/chat/completions", {"messages": messages, "tools": list(tools), **settings})

    def chats(self, conversations, **settings):
        """One answer for each conversation, requested concurrently."""
        with ThreadPoolExecutor(len(conversations)) as pool:
            return list(pool.map(lambda messages: self.chat(messages, **settings), conversations))

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code


def question(door):
    return {"role": "user", "content": f"What is the code of door {door}?"}


def sequence(answer, **more):
    """The prompt and the answer as a sequence for /update."""
    prompt, choice = answer["prompt_token_ids"], answer["choices"][0]
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    return {
        "ids": prompt + choice["token_ids"], "mask": [0] * len(prompt) + [1] * len(logprobs),
        "logprobs": [0] * len(prompt) + logprobs, **more}
