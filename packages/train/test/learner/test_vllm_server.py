"""Tests of vllm_server.py, where a program of these tests stands in for vLLM: python3 test_vllm_server.py"""
import http.client
import json
import os
import re
import signal
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from learner_process import HERE, question, sequence
from tiny_learner import start

VLLM_RECORDING = HERE.parents[3] / "test/vllm/recorded/vllm.json"


def shape(value):
    """What a JSON value is made of: the type of each field, and the different types of a list."""
    if isinstance(value, dict):
        return {name: shape(field) for name, field in sorted(value.items())}
    if isinstance(value, list):
        kinds = [shape(item) for item in value]
        return [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
    return "number" if type(value) in (int, float) else type(value).__name__


class WithVllm(unittest.TestCase):
    def start(self, *flags, **environment):
        path = os.pathsep.join([str(HERE / "stand_in"), str(Path(sys.executable).parent), os.environ["PATH"]])
        return start("tiny_policy.py:TinyPolicy", "--sampler", "vllm", "--seed", "5", *flags, PATH=path, **environment)

    def url(self, learner):
        port = Path(f"/proc/{self.child(learner)}/cmdline").read_text().split("--port\0")[1].split("\0")[0]
        return f"http://127.0.0.1:{port}"

    def seen(self, learner):
        with urllib.request.urlopen(f"{self.url(learner)}/seen") as answer:
            return json.load(answer)

    def test_the_stand_in_answers_as_vllm_does(self):
        recorded = json.loads(VLLM_RECORDING.read_text())["sampler"]
        learner = self.start()
        learner.chat([question(1)])
        seen = self.seen(learner)
        completion = recorded["a completion that is cut"]["request"]
        self.assertEqual(shape(seen["completions"][-1]).keys(), completion.keys())
        self.assertEqual(seen["adapters"], [completion["model"]])
        [name] = seen["adapters"]
        [adapter] = Path(tempfile.gettempdir()).glob(f"osmosis-vllm-{learner.process.pid}-*/{name}")
        variables = Path(f"/proc/{self.child(learner)}/environ").read_text().split("\0")
        [key] = [variable.split("=", 1)[1] for variable in variables if variable.startswith("VLLM_API_KEY=")]
        for case, exchange in recorded.items():
            with self.subTest(case):
                body = self.with_tiny_policy(exchange["request"], adapter)
                answered = self.post(self.url(learner) + exchange["route"], key, body)
                self.assertEqual(self.facts(*answered), self.facts(exchange["status"], exchange["contentType"], exchange["body"]))
        learner.close()

    def with_tiny_policy(self, request, adapter):
        """A recorded request with an adapter of the learner, and with ids that the tiny policy has."""
        own = dict(request)
        if "lora_path" in own:
            own["lora_path"] = f"{adapter}-missing" if own["lora_path"].endswith("-missing") else str(adapter)
        if "prompt" in own:
            own["prompt"] = [1, 2, 3]
            # The request whose first token ends the answer names that token as well.
            own["stop_token_ids"] = list(range(512)) if len(own["stop_token_ids"]) > 1 else own["stop_token_ids"]
        return own

    def facts(self, status, kind, body):
        """What the learner can tell apart, with the reason of an end, and without the texts."""
        if not body.startswith("{"):
            return status, kind, re.sub(r"'[^']*'", "''", body)
        answer, choices = json.loads(body), []
        for choice in answer.get("choices", []):
            choices.append((choice["finish_reason"], len(choice["token_ids"])))
            # Their fields are named by the texts of tokens.
            choice["logprobs"]["top_logprobs"] = [list(top.values()) for top in choice["logprobs"]["top_logprobs"]]
        return status, kind, shape(answer), choices

    def post(self, url, key, body):
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
                return answer.status, answer.headers["content-type"] or "", answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["content-type"] or "", error.read().decode()

    def test_samples_with_the_adapter_of_each_version(self):
        learner = self.start()
        self.assertEqual(learner.ready["sampler"], "vllm")
        flags = self.seen(learner)["flags"]
        self.assertEqual((flags["model"], flags["max_lora_rank"], flags["max_model_len"]), ("tiny", 16, 512))
        self.assertEqual((flags["logprobs_mode"], flags["generation_config"]), ("processed_logprobs", "vllm"))
        self.assertEqual((flags["max_loras"], flags["enable_chunked_prefill"], flags["max_num_batched_tokens"]), (2, False, 2048))
        for version in range(3):
            answers = learner.chats([[question(door)] for door in range(16)], temperature=1.5)
            self.assertEqual({answer["model"] for answer in answers}, {f"policy-{version}"})
            sequences = [sequence(answer, advantage=(-1.0) ** at, temperature=1.5) for at, answer in enumerate(answers)]
            figures = learner.post("/update", {"loss": "policy_gradient", "sequences": sequences, "learning_rate": 1e-3})
            self.assertEqual(figures["version"], version + 1)
            # As far apart as the stand-in makes them, so these are the weights of this version.
            self.assertLess(figures["drift_max"], 0.021)
            self.assertGreater(figures["drift_max"], 0.01)
        seen = self.seen(learner)
        self.assertEqual(seen["adapters"], ["policy-2-3", "policy-3-4"])  # that of the last version may still be answering
        self.assertEqual({body["temperature"] for body in seen["completions"]}, {1.5})
        cut = learner.chat([question(1)], max_tokens=1)["choices"][0]
        self.assertEqual((cut["finish_reason"], len(cut["token_ids"])), ("length", 1))
        self.assertEqual(learner.close(), 0)

    def test_ends_with_vllm_and_says_so(self):
        with tempfile.TemporaryFile("w+") as printed:
            learner = self.start(stderr=printed)
            processes = self.processes(learner)
            self.assertEqual(len(processes), 2)  # the second one holds the output of the learner, as vLLM's engine does
            self.end(processes[0])
            self.assertEqual(learner.process.wait(timeout=60), 78)
            for process in processes:
                self.wait_for_end(process)
            learner.close()
            printed.seek(0)
            self.assertIn("error: vllm serve was ended by SIGKILL while it sampled for the training", printed.read())

    def test_an_update_whose_weights_vllm_refuses_ends_the_learner(self):
        learner = self.start(VLLM_STAND_IN_ADAPTERS="1")
        answers = learner.chats([[question(door)] for door in range(4)])
        sequences = [sequence(answer, advantage=(-1.0) ** at) for at, answer in enumerate(answers)]
        with self.assertRaises((OSError, http.client.HTTPException)):
            learner.request("/update", {"loss": "policy_gradient", "sequences": sequences})
        self.assertEqual(learner.process.wait(timeout=60), 78)
        learner.close()

    def test_stops_at_special_tokens_and_keeps_to_the_temperatures_of_vllm(self):
        learner = self.start()
        stopped = learner.chat([question(1)], stop=["<|im_end|>"])
        self.assertIn(stopped["choices"][0]["finish_reason"], ("stop", "tool_calls"))
        self.assertIs(self.seen(learner)["completions"][-1]["skip_special_tokens"], False)
        for temperature in (0.005, 2.5):
            status, answer = learner.request("/v1/chat/completions", {"messages": [question(1)], "temperature": temperature})
            self.assertEqual((status, answer["error"]["code"]), (400, "unsupported_parameter"))
            self.assertIn("from 0.01 to 2", answer["error"]["message"])
        learner.chat([question(1)], temperature=0)
        learner.close()

    def test_removes_the_adapters_of_a_learner_that_was_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            killed = self.start(TMPDIR=folder)
            [process, _] = self.processes(killed)
            killed.process.kill()
            killed.process.wait()
            self.wait_for_end(process)
            killed.close()
            [left] = Path(folder).glob("osmosis-vllm-*")
            learner = self.start(TMPDIR=folder)
            self.assertFalse(left.exists())
            learner.close()
            self.assertEqual(list(Path(folder).glob("osmosis-vllm-*")), [])

    def test_says_what_vllm_printed_when_it_does_not_start(self):
        with self.assertRaisesRegex(RuntimeError, "code 78"):
            self.start(VLLM_STAND_IN_FAILS="1")

    def test_refuses_to_train_all_weights_with_vllm(self):
        with self.assertRaisesRegex(RuntimeError, "code 78"):
            self.start("--lora-rank", "0")

    def test_vllm_ends_with_a_learner_that_is_killed(self):
        learner = self.start()
        processes = self.processes(learner)
        learner.process.kill()
        learner.process.wait()
        for process in processes:
            self.wait_for_end(process)
        learner.close()

    def child(self, learner):
        return self.processes(learner)[0]

    def processes(self, learner):
        """Those of vLLM: the first one, then what it started."""
        def children(process):
            return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]

        [vllm] = [child for child in children(learner.process.pid) if b"serve" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return [vllm, *children(vllm)]

    def end(self, process):
        os.kill(process, signal.SIGKILL)
        self.wait_for_end(process)

    def wait_for_end(self, process):
        deadline = time.monotonic() + 30
        while Path(f"/proc/{process}").exists() and "Z" not in Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1][:3]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main(verbosity=2)
