"""Tests of learner.py with the tiny policy: python3 test_learner.py"""
import http.client
import json
import resource
import signal
import socket
import time
import unittest
from argparse import Namespace

from learner_process import KEY, READ_NOTE, question, sequence
from tiny_learner import WithPolicy, start, tiny_policy

from bodies import Problem
from learner import Learner
from memory import MemoryPlan


class Answers(WithPolicy):
    def test_prints_what_it_serves(self):
        ready = self.learner.ready
        self.assertEqual((ready["device"], ready["dtype"], ready["max_length"]), ("cpu", "float32", 512))
        self.assertEqual(ready["weights"], ready["trained_weights"])
        self.assertEqual((ready["sampler"], ready["tool_parser"], ready["reasoning_parser"]), ("torch", "hermes", "qwen3"))
        self.assertEqual(set(ready["memory_bytes"]), {"weights", "optimizer", "activations", "cache", "needed", "free"})

    def test_answers_with_ids_and_logprobs(self):
        answer = self.learner.chat([question(3)], seed=1)
        self.assertEqual(answer["model"], "policy-0")
        choice, usage = answer["choices"][0], answer["usage"]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), len(choice["token_ids"]))
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (len(answer["prompt_token_ids"]), len(content)))
        text = "".join(token["token"] for token in content)
        self.assertEqual(text, bytes(b for token in content for b in token["bytes"]).decode())
        self.assertTrue(all(token["logprob"] <= 0 and token["top_logprobs"] == [] for token in content))
        own = self.learner.post("/logprobs", {"sequences": [sequence(answer)]})["logprobs"][0]
        for mine, token in zip(own[-len(content):], content):
            self.assertAlmostEqual(mine, token["logprob"], delta=1e-4)

    def test_same_seed_gives_the_same_tokens(self):
        conversations = [[question(door)] for door in range(16)]
        first, second = (
            [answer["choices"][0]["token_ids"] for answer in self.learner.chats(conversations, seed=7)] for _ in range(2))
        self.assertEqual(first, second)
        other = [answer["choices"][0]["token_ids"] for answer in self.learner.chats(conversations, seed=8)]
        self.assertNotEqual(first, other)

    def test_samples_concurrent_requests_in_batches(self):
        began = time.monotonic()
        for door in range(16):
            self.learner.chat([question(door)], max_tokens=8)
        alone = time.monotonic() - began
        began = time.monotonic()
        answers = self.learner.chats([[question(at % 16)] for at in range(128)], max_tokens=8)
        self.assertLess(time.monotonic() - began, 4 * alone)  # one by one they would take eight times as long
        self.assertEqual(len({answer["id"] for answer in answers}), 128)
        for at, answer in enumerate(answers):
            self.assertEqual(answer["prompt_token_ids"], answers[at % 16]["prompt_token_ids"])

    def test_logprobs_are_those_of_the_temperature(self):
        for temperature in (0.5, 2.0, None):  # None: the learner's own, for the request and for the sequence
            answers = self.learner.chats([[question(door)] for door in range(16)], temperature=temperature)
            sequences = [sequence(answer, advantage=0.0, temperature=temperature) for answer in answers]
            self.assertLess(self.learner.post("/update", {"loss": "policy_gradient", "sequences": sequences, "learning_rate": 0})["drift_max"], 1e-4)

    def test_greedy_answers_are_the_same_with_the_logprobs_of_temperature_1(self):
        first, second = (self.learner.chat([question(1)], temperature=0) for _ in range(2))
        self.assertEqual(first["choices"][0]["token_ids"], second["choices"][0]["token_ids"])
        own = self.learner.post("/logprobs", {"sequences": [sequence(first)]})["logprobs"][0]
        self.assertAlmostEqual(own[-1], first["choices"][0]["logprobs"]["content"][-1]["logprob"], delta=1e-4)

    def test_max_tokens_ends_an_answer_with_length(self):
        choice = self.learner.chat([question(1)], max_tokens=1)["choices"][0]
        self.assertEqual((choice["finish_reason"], len(choice["token_ids"])), ("length", 1))

    def test_streams_in_chunks_with_ids_and_logprobs(self):
        body = {"messages": [question(3)], "tools": [READ_NOTE], "seed": 5}
        whole = self.learner.post("/v1/chat/completions", body)
        status, text = self.learner.request("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
        self.assertEqual(status, 200)
        *events, done, _ = text.split("\n\n")
        self.assertEqual(done, "data: [DONE]")
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        self.assertEqual(chunks[0]["prompt_token_ids"], whole["prompt_token_ids"])
        choice = whole["choices"][0]
        self.assertEqual(chunks[1]["choices"][0]["token_ids"], choice["token_ids"])
        self.assertEqual(len(chunks[1]["choices"][0]["logprobs"]["content"]), len(choice["token_ids"]))
        self.assertEqual(chunks[1]["choices"][0]["delta"].get("content"), choice["message"]["content"])
        self.assertEqual(chunks[2]["choices"][0]["finish_reason"], choice["finish_reason"])
        self.assertEqual(chunks[3]["usage"], whole["usage"])

    def test_refuses_requests_without_the_key(self):
        for path, body in (("/health", None), ("/v1/chat/completions", {"messages": [question(1)]})):
            status, answer = self.learner.request(path, body, key="wrong")
            self.assertEqual((status, answer["error"]["code"]), (401, "invalid_api_key"))

    def test_refuses_what_it_cannot_do(self):
        ids = [1, 2, 3]
        good = {"ids": ids, "mask": [0, 1, 1], "logprobs": [0, -1, -1], "advantage": 1}

        def update(**changes):
            return "/update", {"loss": "policy_gradient", "sequences": [{**good, **changes}]}

        cases = [
            ("/v1/chat/completions", {"messages": []}, "messages"),
            ("/v1/chat/completions", {"messages": [question(1)], "top_p": 0.9}, "top_p"),
            ("/v1/chat/completions", {"messages": [question(1)], "top_k": 5}, "top_k"),
            ("/v1/chat/completions", {"messages": [question(1)], "n": 2}, "`n`"),
            ("/v1/chat/completions", {"messages": [question(1)], "temperature": -1}, "temperature"),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "not text"),
            ("/v1/chat/completions", {"messages": [question(1)], "tools": [{"type": "function"}]}, "tools"),
            ("/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "tool call"),
            ("/update", {"loss": "other", "sequences": [good]}, "loss"),
            ("/update", {"loss": "policy_gradient", "sequences": []}, "sequences"),
            (*update(mask=[0, 1]), "mask"),
            (*update(mask=[1, 1, 1]), "first token"),
            (*update(mask=[0, 0, 0]), "no token"),
            (*update(logprobs=[0, -1, float("nan")]), "NaN"),
            (*update(advantage=None), "advantages"),
            (*update(ids=[1, 2, 10**6]), "sequences[0].ids"),
            ("/update", {"loss": "policy_gradient", "sequences": [good, {**good, "ids": ids * 300}]}, "sequences[1]"),
            ("/save", {"folder": "relative"}, "folder"),
            ("/load", {"folder": "/nowhere"}, "state.pt"),
        ]
        for path, body, words in cases:
            status, answer = self.learner.request(path, body)
            self.assertEqual(status, 400, (path, body, answer))
            self.assertIn(words, answer["error"]["message"])
        status, answer = self.learner.request("/v1/chat/completions", {"messages": [{"role": "user", "content": "1" * 600}]})
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        self.assertIn("512", answer["error"]["message"])
        self.assertEqual(self.learner.request("/nothing")[0], 404)

    def test_a_client_that_disconnects_is_dropped(self):
        learner = start("slow_policy.py:SlowPolicy")
        self.addCleanup(learner.close)
        connection = http.client.HTTPConnection(learner.address)
        body = json.dumps({"messages": [question(1)]})
        connection.request("POST", "/v1/chat/completions", body, {"authorization": f"Bearer {KEY}"})
        self.wait_until_busy(learner, True)
        connection.close()
        self.wait_until_busy(learner, False)  # the answer to its end would take minutes
        learner.chat([question(1)], max_tokens=1)

    def test_more_than_a_thousand_connections_are_served(self):
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        learner = start("slow_policy.py:SlowPolicy")
        self.addCleanup(learner.close)
        for _ in range(1100):
            idle = socket.create_connection(learner.address.split(":"))
            self.addCleanup(idle.close)
        learner.chat([question(1)], max_tokens=4)  # takes so long that the learner looks whether the client is still there

    def wait_until_busy(self, learner, busy):
        deadline = time.monotonic() + 60
        while learner.request("/health")[1]["busy"] != busy:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_refuses_tools_of_a_family_that_it_cannot_read_by_name(self):
        policy = tiny_policy(False)
        policy.template = "{% for tool in tools %}[TOOL_CALLS]"
        learner = Learner(policy, Namespace(learning_rate=0, micro_batch_tokens=1, seed=0, exact=False, batch=1, log=[]), MemoryPlan({}, 0, 0, 1, False))
        with self.assertRaisesRegex(Problem, "form of Mistral") as refused:
            learner.chat({"messages": [question(1)], "tools": [READ_NOTE]}, None)
        self.assertEqual((refused.exception.status, refused.exception.body["error"]["code"]), (400, "tools_unsupported"))


class Process(unittest.TestCase):
    def test_ends_on_sigterm_and_not_on_ctrl_c(self):
        learner = start()
        learner.process.send_signal(signal.SIGINT)
        self.assertEqual(learner.request("/health")[0], 200)
        learner.process.send_signal(signal.SIGTERM)
        self.assertEqual(learner.process.wait(timeout=60), 0)
        learner.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
