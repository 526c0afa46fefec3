"""Tests of learner.py over HTTP, with the tiny policy: python3 test_learner.py"""
import errno
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from argparse import Namespace
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))
from learner_process import HERE, KEY, LEARNER, READ_NOTE, LearnerProcess, question, sequence

sys.path.insert(0, str(LEARNER.parent))
import answers
import bounded
import sampling
import torch
from bodies import Problem
from folders import replacing
from learner import Learner
from memory import MemoryPlan

VLLM_RECORDING = HERE.parents[3] / "test/vllm/recorded/vllm.json"
# What the templates of each family have in common.
TEMPLATES = {
    "hermes": "<tool_call>", "hermes, thinking": "<tool_call> </think>", "xml": "<tool_call> <function=",
    "llama": '<|start_header_id|> {"name": …, "parameters": …}'}
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "number"}}}}}


def start(policy="tiny_policy.py:TinyPolicy", *flags, **environment):
    return LearnerProcess("--model", "tiny", "--policy-class", str(HERE / policy), "--max-length", "512", *flags, **environment)


def setUpModule():
    global shared, folder
    shared, folder = start(), tempfile.TemporaryDirectory()
    shared.post("/save", {"folder": f"{folder.name}/start"})


def tearDownModule():
    shared.close()
    folder.cleanup()


class WithPolicy(unittest.TestCase):
    """Each test begins with the weights of the start."""

    def setUp(self):
        self.learner = shared
        self.learner.post("/load", {"folder": f"{folder.name}/start"})


class FullDisk(unittest.TestCase):
    def test_is_named_when_it_refuses_the_folder_itself(self):
        with tempfile.TemporaryDirectory() as there:
            target = Path(there, "step", "saved")
            for made in ("step", "saved"):  # the parent, and the temporary folder
                real = Path.mkdir

                def refuse(path, *args, made=made, real=real, **options):
                    if path.name.startswith(made):
                        raise OSError(errno.ENOSPC, "No space left on device", str(path))
                    return real(path, *args, **options)

                with self.subTest(made), mock.patch.object(Path, "mkdir", refuse), self.assertRaises(Problem) as raised:
                    with replacing(target):
                        self.fail("began to write")
                self.assertEqual((raised.exception.status, raised.exception.body["error"]["code"]), (507, "disk_full"))
                self.assertRegex(str(raised.exception), r"^Cannot write to .*saved: the disk is full or has a limit\. \d+ MiB are free there\.")


@unittest.skipUnless(sys.platform == "linux", "glibc has these heaps")
class Memory(WithPolicy):
    def test_threads_take_memory_from_one_heap(self):
        for at in range(3):
            self.learner.chat([question(at)])
        # The heap of a thread begins at a multiple of 64 MiB, and what it has not used yet cannot be read.
        maps = Path(f"/proc/{self.learner.process.pid}/maps").read_text()
        parts = [(int(start, 16), int(end, 16), mode) for start, end, mode in re.findall(r"^(\w+)-(\w+) (\S+)", maps, re.M)]
        heaps = [hex(start) for (start, end, mode), (rest, stop, unused) in zip(parts, parts[1:])
                 if (mode, unused) == ("rw-p", "---p") and start % 2**26 == 0 == stop % 2**26 and end == rest]
        self.assertEqual(heaps, [])

    def test_returns_memory_that_was_freed_between_live_objects(self):
        code = """
import re, sys
sys.path.insert(0, sys.argv[1])
import heap
def megabytes():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
blocks = [bytes(100_000) + bytes([at % 256]) for at in range(3000)]
live = blocks[::100]
before = megabytes()
del blocks
freed = megabytes()
heap.return_freed_memory()
print(before - freed, before - megabytes(), len(live))
"""
        ended = subprocess.run([sys.executable, "-c", code, str(LEARNER.parent)], capture_output=True, text=True, check=True)
        freed, returned, _ = map(int, ended.stdout.split())
        self.assertLess(freed, 100)
        self.assertGreater(returned, 200)


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
        connection = http.client.HTTPConnection(self.learner.address)
        body = json.dumps({"messages": [question(1)], "stop": ["never said"]})
        connection.request("POST", "/v1/chat/completions", body, {"authorization": f"Bearer {KEY}"})
        connection.close()
        deadline = time.monotonic() + 60
        while self.learner.request("/health")[1]["busy"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.learner.chat([question(1)])


class Logging(unittest.TestCase):
    """With fakes of the packages."""

    def start(self, **environment):
        learner = start("tiny_policy.py:TinyPolicy", "--log", "tensorboard,wandb,mlflow", **{
            "PYTHONPATH": str(HERE / "stand_in/packages"), "STAND_IN_SERVICE": str(self.folder / "service"), **environment})
        self.addCleanup(learner.close)
        return learner

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "service").mkdir()
        self.training = {"id": "a1", "name": "mine", "project": "doors", "folder": folder.name, "config": {"model": "tiny"}}
        self.records = [{"at": at, "step": at, "time": at, "values": {"Drift of logprobs, mean": at / 8}} for at in range(4)]

    def log(self, learner, records, **more):
        return learner.post("/log", {"training": self.training, "records": records, **more})["warnings"]

    def written(self):
        board = [json.loads(line) for file in (self.folder / "tensorboard").iterdir() for line in file.read_text().splitlines()]
        rows = [json.loads(line) for line in (self.folder / "service/doors-a1.jsonl").read_text().splitlines()]
        store = json.loads((self.folder / "service/mlflow.json").read_text())
        return ([(value, step) for _, value, step, _ in board], [(row["Drift of logprobs, mean"], row["Step"]) for row in rows],
                [(value, step) for _, value, _, step in store["metrics"]], store["status"])

    def test_each_logger_has_each_record_once_after_a_training_that_continues(self):
        first = self.start()
        self.log(first, self.records[:2])
        self.assertEqual(first.close(), 0)
        expected = [(0.0, 0), (0.125, 1)]
        self.assertEqual(self.written(), (expected, expected, expected, "KILLED"))
        second = self.start()
        self.assertEqual(self.log(second, self.records, ended=True), [])
        expected += [(0.25, 2), (0.375, 3)]
        self.assertEqual(self.written(), (expected, expected, expected, "FINISHED"))

    def test_an_unreachable_service_is_a_warning_and_gets_its_records_later(self):
        (self.folder / "service").rmdir()
        learner = self.start()
        warnings, deadline = self.log(learner, self.records[:1]), time.monotonic() + 60
        while len(warnings) < 2 and time.monotonic() < deadline:
            warnings += self.log(learner, [])
        self.assertIn("wandb does not take the figures of the training, which continues without: ConnectionError: no route to host", warnings)
        self.assertEqual(self.log(learner, [self.records[1]]), [])  # it was reported
        (self.folder / "service").mkdir()
        self.assertEqual(self.log(learner, self.records[2:], ended=True), [])
        self.assertEqual([len(written) for written in self.written()[:2]], [4, 4])


class Parsing(unittest.TestCase):
    def test_reads_the_answers_that_every_reader_of_answers_has_to_read(self):
        for case in json.loads((HERE.parent / "answers.json").read_text()):
            search = {**SEARCH["function"], **{key: case[key] for key in ("parameters",) if key in case}}
            offered = [READ_NOTE, {"type": "function", "function": search}] if case.get("tools", True) else []
            message = answers.parse_answer(case["text"], offered, TEMPLATES[case["family"]])
            calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])]
            read = {"content": message["content"], "reasoning": message.get("reasoning_content"), "calls": calls}
            self.assertEqual(read, {"reasoning": None, **{key: case[key] for key in read if key in case}}, case["title"])

    def test_names_the_families_that_it_knows(self):
        for template, expected in [
            *((template, name) for template, name in zip(TEMPLATES.values(), ["Hermes", "Hermes", "Qwen3-Coder", "Llama 3"])),
            ("<tool_call> <arg_key>", "GLM"), ("<|channel|>", "gpt-oss"), ("<|tool_call>", "Gemma"), ("<|tool_call_start|>", "LFM2"),
            ("<｜tool▁call▁begin｜>", "DeepSeek"), ("[TOOL_CALLS]", "Mistral"), ("tools", "an unknown family"),
            ("<seed:tool_call> <function=", "an unknown family")]:
            family = answers.tool_family(template)
            self.assertEqual((family.name, bool(family.read_calls), bool(family.parser)), (expected, template in TEMPLATES.values(), template in TEMPLATES.values()))


def tiny_policy(weights):
    from tiny_policy import TinyPolicy

    return TinyPolicy(Namespace(model="tiny", max_length=512), weights)


def endless_policy():
    """Its answers end at their limit."""
    policy = tiny_policy(True)
    policy.end_ids = set()
    return policy


class Templates:
    """A policy with the template of a stranger, which knows these roles."""
    name, end_ids = "strange", {0}

    def __init__(self, *roles, write=str):
        self.roles, self.write, self.template = roles, write, " ".join(roles)

    def render(self, messages, tools, answer, **settings):
        return "".join(self.write(m["content"]) for m in messages if m["role"] in self.roles)

    def encode(self, text):
        return list(text.encode())


class Roles(unittest.TestCase):
    def test_developer_is_system_where_the_template_lacks_it(self):
        message = {"role": "developer", "content": "Be brief."}
        known = answers.Conversations(Templates("developer", "user"))
        self.assertEqual(known.roles([message]), [message])
        other = answers.Conversations(Templates("system", "user"))
        self.assertEqual(other.roles([message]), [{**message, "role": "system"}])

    def test_a_message_whose_text_does_not_reach_the_prompt_is_refused(self):
        conversations = answers.Conversations(Templates("user", "system"))
        for role in ("function", "critic", "ipython", "", "tool"):
            messages = [question(1), {"role": role, "content": "text"}, question(2)]
            for _ in range(2):  # the form of a conversation is remembered
                with self.assertRaisesRegex(Problem, r"messages\[1\], whose role is") as refused:
                    conversations.prompt(messages, [], {})
                self.assertEqual((refused.exception.status, refused.exception.body["error"]["code"]), (400, "message_left_out"))
            conversations.prompt([question(1), {"role": role, "content": " \n"}], [], {})
        quoting = answers.Conversations(Templates("user", write=json.dumps))
        quoting.prompt([{"role": "user", "content": 'a "b"\n'}], [], {})


class Bounds(unittest.TestCase):
    def test_what_runs_without_end_is_ended_and_what_follows_is_not(self):
        def forever():
            while True:
                pass

        bounded.SECONDS = 0.2
        try:
            for _ in range(2):
                with self.assertRaisesRegex(bounded.TooMuch, "runs for more than"):
                    bounded.watch_text(forever)
                self.assertEqual(bounded.watch_text(lambda: "text"), "text")
            with self.assertRaisesRegex(bounded.TooMuch, "writes 16777217 characters"):
                bounded.watch_text(lambda: "x" * (bounded.MOST_TEXT + 1))
        finally:
            bounded.SECONDS = 2.0


class InOneProcess(unittest.TestCase):
    def test_refuses_tools_of_a_family_that_it_cannot_read_by_name(self):
        policy = tiny_policy(False)
        policy.template = "{% for tool in tools %}[TOOL_CALLS]"
        learner = Learner(policy, Namespace(learning_rate=0, micro_batch_tokens=1, seed=0, exact=False, batch=1, log=[]), MemoryPlan({}, 0, 0, 1, False))
        with self.assertRaisesRegex(Problem, "form of Mistral") as refused:
            learner.chat({"messages": [question(1)], "tools": [READ_NOTE]}, None)
        self.assertEqual((refused.exception.status, refused.exception.body["error"]["code"]), (400, "tools_unsupported"))

    def test_a_request_joins_those_that_are_sampled_and_ends_before_a_long_one(self):
        policy = endless_policy()

        def sampled(requests, wait):
            order, sampler = [], sampling.Sampler(policy, Namespace(version=0), sampling.Turns(), 16, 100_000)
            for at, request in enumerate(requests):
                request.done.set = lambda at=at, done=request.done.set: (order.append(at), done())
                sampler.submit(request)
                while wait and len(requests[0].ids) < 20:
                    time.sleep(0.001)
            for request in requests:
                request.done.wait()
            return order

        def requests():
            prompts = [policy.encode(f"door {at} " * (at % 4 + 1)) for at in range(9)]
            return [sampling.Request(prompt, 1.0, 10 + at if at else 300, [], at) for at, prompt in enumerate(prompts)]

        together = requests()
        self.assertEqual(sampled(together, wait=True)[-1], 0)
        for request, alone in zip(together, requests()):
            sampled([alone], wait=False)
            self.assertEqual(request.ids, alone.ids)
            self.assertLess(max(abs(a - b) for a, b in zip(request.logprobs, alone.logprobs)), 1e-4)

    def test_nobody_joins_while_an_update_waits(self):
        policy, turns = endless_policy(), sampling.Turns()
        sampler = sampling.Sampler(policy, Namespace(version=0), turns, 16, 100_000)
        first, second = (sampling.Request(policy.encode("door"), 1.0, 300, [], seed) for seed in range(2))
        sampler.submit(first)
        while not first.ids:
            time.sleep(0.001)
        seen = []

        def update():
            with turns:
                seen.append((first.done.is_set(), list(second.ids)))

        updating = threading.Thread(target=update)
        updating.start()
        while not turns.wanted:
            time.sleep(0.001)
        sampler.submit(second)
        updating.join()
        self.assertEqual(seen, [(True, [])])
        second.done.wait()

    def test_an_answer_that_waits_in_its_middle_for_an_update_has_the_version_that_began_it(self):
        policy, turns, trainer = endless_policy(), sampling.Turns(), Namespace(version=0)
        prompt = policy.encode("door")
        sampler = sampling.Sampler(policy, trainer, turns, 16, 2 * (len(prompt) + 40))
        first, second, third = (sampling.Request(prompt, 1.0, 300, [], seed) for seed in range(3))
        sampler.submit(first)
        sampler.submit(second)
        while not second.ids or second in sampler.live:
            time.sleep(0.001)
        with turns:
            trainer.version = 1
            self.assertTrue(0 < len(second.ids) < 300)
        sampler.submit(third)
        third.done.wait()
        self.assertEqual((first.version, second.version, third.version), (0, 0, 1))

    def test_two_conversations_that_say_the_same_continue_with_their_own_tokens(self):
        policy, user, answer = tiny_policy(False), question(1), {"role": "assistant", "content": "read_note"}
        conversations = answers.Conversations(policy)
        end = [policy.tokenizer.special["<|im_end|>"]]
        said = {"a": [*policy.encode("read_note"), *end], "b": [*b"read_note", *end]}
        prompt = conversations.prompt([user], [], {})
        for owner, ids in said.items():
            conversations.remember([user], [], {}, answer, prompt + ids, owner)
        for owner, ids in said.items():
            second = conversations.prompt([user, answer, {"role": "user", "content": "Sure?"}], [], {}, owner)
            self.assertEqual(second[: len(prompt + ids)], prompt + ids)
        self.assertNotEqual(said["a"], said["b"])

    def test_answers_that_find_no_room_in_the_cache_continue_later(self):
        policy, starts = tiny_policy(True), []
        prompts = [policy.encode(policy.render([question(door)], [READ_NOTE], True)) for door in range(16)]
        begin = policy.start
        policy.start = lambda prompts: starts.append(len(prompts)) or begin(prompts)

        def sample(most_tokens):
            starts.clear()
            requests = [sampling.Request(prompt, 2.0, 40, [], seed) for seed, prompt in enumerate(prompts)]
            sampler = sampling.Sampler(policy, Namespace(version=0), sampling.Turns(), 16, most_tokens)
            for request in requests:
                sampler.submit(request)
            for request in requests:
                self.assertTrue(request.done.wait(60))
            return [request.ids for request in requests]

        everything = sample(10**6)
        self.assertEqual(starts, [16])
        width = max(map(len, prompts))
        # Room for 4 at first, for fewer once the answers are longer, and for one in any case.
        self.assertEqual(sample(4 * (width + 32)), everything)
        self.assertEqual(starts[0], 4)
        self.assertGreater(len(starts), 4)
        self.assertEqual(sample(1), everything)

    def test_a_seed_decides_an_answer_to_the_last_bit_whatever_is_sampled_beside_it(self):
        policy = tiny_policy(True)
        texts = [policy.render([question(door)], [READ_NOTE] * (1 + door % 3), True) for door in range(16)]
        settings = [(0.0, [], 90), (2.0, [], 90), (1.3, ["e", "a1"], 200), (1.0, [], 300)]

        def sample(batch, most_tokens, exact=True):
            requests = [
                sampling.Request(policy.encode(text), temperature, most, stop, seed)
                for seed, text in enumerate(texts) for temperature, stop, most in settings]
            sampler = sampling.Sampler(policy, Namespace(version=0), sampling.Turns(), batch, most_tokens, exact)
            for request in requests:
                sampler.submit(request)
            for request in requests:
                self.assertTrue(request.done.wait(120))
                self.assertEqual(len(request.logprobs), len(request.ids))
                self.assertIn(request.finish, ("stop", "length"))
            return [(request.ids, request.logprobs, request.finish) for request in requests]

        together = sample(64, 10**6)
        self.assertNotEqual(sample(64, 10**6, exact=False), sample(1, 10**6, exact=False))  # else this test shows nothing
        for batch, most_tokens in (64, 10**6), (64, 1500), (7, 10**6), (1, 10**6):
            self.assertEqual(sample(batch, most_tokens), together)

    def test_a_draw_falls_on_the_first_token_whose_cumulated_probability_exceeds_it(self):
        chance = torch.Generator().manual_seed(1)
        for size in (2, 255, 256, 257, 1000, 50_000):
            logits = 4 * torch.randn(32, size, generator=chance)
            logits[:, torch.rand(size, generator=chance) < 0.5] = -torch.inf
            logits[:, size // 2] = 0
            logprobs, draws = torch.log_softmax(logits, -1), torch.rand(32, generator=chance, dtype=torch.float64)
            draws[:2] = torch.tensor([0, 1 - 2**-53])
            sums = logprobs.double().exp().cumsum(-1)
            sums = sums / sums[:, -1:]
            for row, token in enumerate(sampling._pick(logprobs, draws).tolist()):
                self.assertGreater(sums[row, token], draws[row] - 1e-6)
                self.assertLessEqual(sums[row, token - 1] if token else 0, draws[row] + 1e-6)
                self.assertGreater(logprobs[row, token], -torch.inf)

    def test_a_seed_is_refused_where_sampling_and_training_disagree(self):
        policy = tiny_policy(True)
        head = policy.head
        policy.start = lambda prompts: (torch.zeros(len(prompts), policy.vocabulary_size), None)
        policy.step = lambda state, rows, tokens: (torch.zeros(len(rows), policy.vocabulary_size), None)
        policy.head = lambda hidden: 3 * head(hidden)
        policy.joins = lambda state: False
        sampler = sampling.Sampler(policy, Namespace(version=0), sampling.Turns(), 8, 10**6, True)
        requests = [sampling.Request(policy.encode("door"), 1.0, 200, [], seed) for seed in range(20)]
        for request in requests:
            sampler.submit(request)
        for request in requests:
            self.assertTrue(request.done.wait(60))
        refused = [request.error for request in requests if request.error]
        self.assertTrue(refused)
        self.assertEqual(refused[0].body["error"]["code"], "drift")


class Conversations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.learner = start("forced_policy.py:ForcedPolicy")

    @classmethod
    def tearDownClass(cls):
        cls.learner.close()

    def two_turns(self, said, follow, echo=lambda message: message, tools=(READ_NOTE,), **settings):
        """Answers of two turns, where the policy says `said` and then "done"."""
        user = {"role": "user", "content": f"answer: {json.dumps(said)}\nanswer: {json.dumps('done')}"}
        first = self.learner.chat([user], tools, **settings)
        message = first["choices"][0]["message"]
        second = self.learner.chat([user, echo(message), *follow(message)], tools)
        self.assertEqual(second["choices"][0]["message"]["content"], "done")
        return first, second

    def read(self, message):
        return [{"role": "tool", "tool_call_id": call["id"], "content": "ab"} for call in message.get("tool_calls", [])]

    def assertExtends(self, first, second):
        ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
        self.assertEqual(second["prompt_token_ids"][: len(ids)], ids)

    def rewritten(self):
        return self.learner.request("/health")[1]["rewritten"]

    def test_a_second_turn_extends_the_tokens_of_the_first(self):
        call = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
        before = self.rewritten()
        for said, calls in [
            (call, 1),
            (f"I read it.  \n\n {call}", 1),
            (f"<think>\nLet me see.\n\n</think>\n\n{call}", 1),
            (f"{call}\n{call}\n", 2),
            ('  <tool_call>{"arguments":  { "page" : 1.0 , "größe":"ü\\u00fc" },"name":"read_note"}</tool_call>\t', 1),
        ]:
            first, second = self.two_turns(said, self.read)
            self.assertEqual(first["choices"][0]["finish_reason"], "tool_calls")
            self.assertEqual(len(first["choices"][0]["message"]["tool_calls"]), calls)
            self.assertExtends(first, second)
        self.assertEqual(self.rewritten(), before)

    def test_without_tools_to_choose_from_a_call_is_text(self):
        call = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
        user = {"role": "user", "content": f"answer: {json.dumps(call)}"}
        answer = self.learner.chat([user], [READ_NOTE], tool_choice="none")
        self.assertEqual(answer["choices"][0]["message"], {"role": "assistant", "content": call})
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        without = self.learner.chat([user], [])
        self.assertEqual(answer["prompt_token_ids"], without["prompt_token_ids"])

    def test_white_space_survives(self):
        for said in ("  two spaces  ", "\n\nlines\r\n\t\n", "\u00a0\ufeffmarks \u2028", "emoji 👩‍👩‍👧", "", " "):
            first, second = self.two_turns(said, lambda message: [{"role": "user", "content": " again \n"}])
            self.assertEqual(first["choices"][0]["message"]["content"], said)
            self.assertExtends(first, second)

    def test_arguments_are_the_text_that_the_model_wrote(self):
        arguments = '{ "page" :1.0,  "größe":"ü\\u00fc", "n":12345678901234567890 }'
        first, _ = self.two_turns(f'<tool_call>{{"name": "read_note", "arguments": {arguments}}}</tool_call>', self.read)
        self.assertEqual(first["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], arguments)
        self.assertIsNone(first["choices"][0]["message"]["content"])

    def test_a_call_that_is_not_json_stays_in_the_content(self):
        said = '<tool_call>\n{"name": "read_note", "arguments": {]}\n</tool_call>'
        first, second = self.two_turns(said, lambda message: [{"role": "user", "content": "What?"}])
        self.assertEqual(first["choices"][0]["message"], {"role": "assistant", "content": said})
        self.assertEqual(first["choices"][0]["finish_reason"], "stop")
        self.assertExtends(first, second)

    def test_a_client_may_leave_out_the_reasoning_and_write_empty_fields_otherwise(self):
        said = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'

        def echo(message):
            self.assertEqual(message["reasoning_content"], "Hm.")
            return {"role": "assistant", "content": "", "refusal": None, "tool_calls": message["tool_calls"]}

        first, second = self.two_turns(said, self.read, echo)
        self.assertExtends(first, second)

    def test_a_call_that_was_cut_off_is_not_made(self):
        call = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
        first, second = self.two_turns(call, lambda message: [{"role": "user", "content": "Go on."}], max_tokens=30)
        choice = first["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"].get("tool_calls")), ("length", None))
        self.assertTrue(call.startswith(choice["message"]["content"]))
        self.assertExtends(first, second)

    def test_an_answer_that_was_cut_off_gets_its_end(self):
        first, second = self.two_turns("a long answer", lambda message: [{"role": "user", "content": "Go on."}], max_tokens=6)
        self.assertEqual(first["choices"][0]["message"]["content"], "a long")
        self.assertExtends(first, second)
        at = len(first["prompt_token_ids"]) + 6
        self.assertIn(second["prompt_token_ids"][at], [second["choices"][0]["token_ids"][-1]])

    def test_a_conversation_is_rendered_again_where_the_template_drops_earlier_thinking(self):
        before = self.rewritten()
        first, second = self.two_turns("<think>\nHm.\n</think>\n\nYes.", lambda message: [{"role": "user", "content": "Sure?"}])
        self.assertEqual(self.rewritten(), before + 1)
        self.assertEqual(first["choices"][0]["message"], {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."})
        thinking = first["choices"][0]["token_ids"][0]
        self.assertEqual(second["prompt_token_ids"].count(thinking), 1)  # the one in the question

    def test_a_changed_answer_is_not_taken_for_the_recorded_one(self):
        first, second = self.two_turns(
            "Yes.", lambda message: [{"role": "user", "content": "Sure?"}], lambda message: {**message, "content": "No."})
        ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
        self.assertNotEqual(second["prompt_token_ids"][: len(ids)], ids)

    def test_stop_texts_cut_the_answer(self):
        first, second = self.two_turns("one STOP two", lambda message: [{"role": "user", "content": "again"}], stop=["STOP"])
        choice = first["choices"][0]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), ("one ", "stop"))
        self.assertEqual(len(choice["token_ids"]), len("one STOP"))
        self.assertExtends(first, second)


class Updates(WithPolicy):
    def sampled(self, count=64, **settings):
        return self.learner.chats([[question(at % 16)] for at in range(count)], **settings)

    def update(self, sequences, **settings):
        return self.learner.post("/update", {"loss": "policy_gradient", "sequences": sequences, **settings})

    def logprob(self, answer):
        """At the temperature at which the answer was sampled: a better answer may get less likely at another one."""
        return sum(self.learner.post("/logprobs", {"sequences": [sequence(answer, temperature=2.0)]})["logprobs"][0][len(answer["prompt_token_ids"]):])

    def test_makes_a_rewarded_answer_more_likely(self):
        good, bad = self.sampled(2, seed=3, temperature=2.0)
        before = self.logprob(good), self.logprob(bad)
        for loss, signs in (("policy_gradient", [1, -1]), ("cross_entropy", [1, 0])):
            sequences = [sequence(answer, advantage=by, temperature=2.0) for answer, by in zip((good, bad), signs)]
            body = {"loss": loss, "sequences": sequences, "learning_rate": 1e-3, "epochs": 2}
            figures = self.learner.post("/update", body)
            after = self.logprob(good), self.logprob(bad)
            self.assertGreater(after[0], before[0])
            if loss == "policy_gradient":
                self.assertLess(after[1], before[1])
                good, bad = self.sampled(2, seed=4, temperature=2.0)
                after = self.logprob(good), self.logprob(bad)
            before = after
        self.assertEqual(figures["version"], 2)
        self.assertEqual(self.sampled(1)[0]["model"], "policy-2")
        self.assertEqual(self.learner.request("/v1/models")[1]["data"][0]["id"], "policy-2")

    def test_trainer_and_sampler_agree_also_in_padded_batches(self):
        sequences = [sequence(answer, advantage=0.5) for answer in self.sampled(64)]
        sequences += [sequence(self.learner.chat([{"role": "user", "content": "x 1 " * n}], max_tokens=20), advantage=0.5) for n in (1, 30, 90)]
        figures = self.update(sequences, learning_rate=0, kl=0.1)
        self.assertLess(figures["drift_max"], 1e-4)
        self.assertLess(abs(figures["kl"]), 1e-6)
        self.assertEqual(figures["clip_fraction"], 0)
        self.assertEqual(figures["sequences"], 67)
        self.assertEqual(figures["tokens"], sum(sum(s["mask"]) for s in sequences))
        self.assertGreater(figures["entropy"], 0)
        self.assertEqual(set(figures), {"version", "loss", "drift_mean", "drift_max", "entropy", "clip_fraction", "kl", "grad_norm", "tokens", "sequences", "seconds"})

    def test_drift_is_measured_against_the_version_that_answered(self):
        for settings in ({}, {"epochs": 2, "minibatches": 2}):
            version = self.learner.request("/health")[1]["version"]
            own = [sequence(answer, advantage=1.0, version=version) for answer in self.sampled(8)]
            self.update(own, learning_rate=5e-3)
            new = [sequence(answer, advantage=1.0, version=version + 1) for answer in self.sampled(8)]
            figures = self.update([*own, *new], learning_rate=1e-3, **settings)
            self.assertLess(figures["drift_max"], 1e-4)
            # The weights of now give the older answers other probabilities, and a false version shows it.
            wrong = {"loss": "policy_gradient", "max_drift": 1e-3, "sequences": [{**one, "version": version + 2} for one in own]}
            self.assertEqual(self.learner.request("/update", wrong)[1]["error"]["code"], "drift")

    def test_what_no_known_version_sampled_alone_has_no_drift(self):
        version = self.learner.request("/health")[1]["version"]
        fresh, other = (sequence(self.learner.chat([question(door)], seed=door), advantage=1) for door in range(2))
        other = {**other, "logprobs": [logprob - 1 if logprob else 0 for logprob in other["logprobs"]]}
        for unknown in (None, max(0, version - 5)):
            other["version"] = unknown
            self.assertLess(self.update([fresh, other], learning_rate=0)["drift_max"], 1e-4)
            self.assertIsNone(self.update([other], learning_rate=0)["drift_mean"])

    def test_drift_changes_nothing(self):
        sequences = [sequence(answer, advantage=1.0) for answer in self.sampled()]
        before = self.learner.post("/logprobs", {"sequences": sequences})

        def shifted(s):
            return {**s, "ids": s["ids"][1:] + [1]}

        def changed(s):
            return {**s, "logprobs": [logprob - 0.4 * on for logprob, on in zip(s["logprobs"], s["mask"])]}

        for wrong in (shifted, changed):
            status, answer = self.learner.request("/update", {"loss": "policy_gradient", "sequences": [wrong(s) for s in sequences]})
            self.assertEqual((status, answer["error"]["code"]), (409, "drift"))
            self.assertGreater(answer["error"]["drift_mean"], 0.3)
            self.assertIn("template", answer["error"]["message"])
        self.assertEqual(self.learner.post("/logprobs", {"sequences": sequences}), before)
        self.assertEqual(self.learner.request("/health")[1]["version"], 0)

    def test_an_update_that_is_not_finite_changes_nothing(self):
        sequences = [sequence(answer, advantage=1.0) for answer in self.sampled()]
        before = self.learner.post("/logprobs", {"sequences": sequences})
        extreme = [{**s, "advantage": 3e38} for s in sequences]
        for wrong, settings in ((extreme, {}), (sequences, {"learning_rate": 1e30, "epochs": 4, "minibatches": 2})):
            status, answer = self.learner.request("/update", {"loss": "policy_gradient", "sequences": wrong, **settings})
            self.assertEqual((status, answer["error"]["code"]), (409, "not_finite"), answer)
        self.assertEqual(self.learner.post("/logprobs", {"sequences": sequences}), before)
        self.assertEqual(self.learner.request("/health")[1]["version"], 0)
        self.assertEqual(self.update(sequences)["version"], 1)

    def test_micro_batches_change_nothing_but_memory(self):
        sequences = [sequence(answer, advantage=1.0 if at % 2 else -1.0) for at, answer in enumerate(self.sampled())]
        body = {"loss": "policy_gradient", "sequences": sequences, "learning_rate": 1e-3, "epochs": 2, "minibatches": 2}
        small = start("tiny_policy.py:TinyPolicy", "--micro-batch-tokens", "100")
        results = [(learner.post("/update", body), learner.post("/logprobs", {"sequences": sequences[:4]})["logprobs"])
                   for learner in (self.learner, small)]
        self.assertEqual(small.close(), 0)  # it ends when its stdin closes
        for name in ("loss", "grad_norm", "entropy"):
            self.assertAlmostEqual(results[0][0][name], results[1][0][name], delta=1e-3)
        for one, other in zip(results[0][1], results[1][1]):
            self.assertLess(max(abs(a - b) for a, b in zip(one, other)), 2e-2)

    def test_continues_exactly_after_saving_and_loading(self):
        def train(seed, learner=self.learner):
            answers = [learner.chat([question(door)], seed=seed) for door in range(8)]
            sequences = [sequence(a, advantage=(-1.0) ** at) for at, a in enumerate(answers)]
            figures = learner.post("/update", {"loss": "policy_gradient", "sequences": sequences, "learning_rate": 1e-3, "epochs": 2, "seed": seed})
            return [a["choices"][0]["token_ids"] for a in answers], {**figures, "seconds": 0}

        train(1)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # the second takes the place of the first
                self.learner.post("/save", {"folder": f"{folder}/state"})
            self.assertEqual(os.listdir(folder), ["state"])
            expected = [train(2), train(3), self.learner.chat([question(1)], temperature=2.0)["choices"][0]["token_ids"]]
            self.assertEqual(self.learner.post("/load", {"folder": f"{folder}/state"}), {"version": 1})
            again = [train(2), train(3), self.learner.chat([question(1)], temperature=2.0)["choices"][0]["token_ids"]]
            self.assertEqual(again, expected)
            other = start()
            other.post("/load", {"folder": f"{folder}/state"})
            again = [train(2, other), train(3, other), other.chat([question(1)], temperature=2.0)["choices"][0]["token_ids"]]
            other.close()
            self.assertEqual(again, expected)
            self.assertEqual(expected[1][1]["version"], 3)

    def test_learns_to_read_the_note(self):
        """Sixteen doors, eight attempts at each; the reward is the share of letters that are right."""
        rewards = []
        for step in range(9):
            reward, sequences = self.attempts()
            rewards.append(reward)
            if step < 8:
                self.assertLess(self.update(sequences, learning_rate=1e-3, epochs=2, minibatches=2, seed=step)["drift_max"], 1e-4)
        self.assertLess(rewards[0], 0.6, rewards)
        self.assertGreater(max(rewards), rewards[0] + 0.25, rewards)

    def attempts(self):
        from doors import attempt_doors

        return attempt_doors(self.learner)


def shape(value):
    """What a JSON value is made of: the type of each field, and the different types of a list."""
    if isinstance(value, dict):
        return {name: shape(field) for name, field in sorted(value.items())}
    if isinstance(value, list):
        kinds = [shape(item) for item in value]
        return [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
    return "number" if type(value) in (int, float) else type(value).__name__


class WithVllm(unittest.TestCase):
    """The stand-in of vLLM is a program of these tests."""

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
