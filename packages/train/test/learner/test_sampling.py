"""Tests of sampling.py: python3 test_sampling.py"""
import threading
import time
import unittest
from argparse import Namespace

from learner_process import READ_NOTE, question
from tiny_learner import tiny_policy

import sampling
import torch


def endless_policy():
    """Its answers end at their limit."""
    policy = tiny_policy(True)
    policy.end_ids = set()
    return policy


class Sampling(unittest.TestCase):
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

    def test_an_answer_that_has_ended_does_not_fail_with_the_next_one(self):
        policy, passes = tiny_policy(True), []
        hidden = policy.hidden

        def fail_at_second(*parts):
            passes.append(parts)
            if len(passes) == 2:
                raise MemoryError
            return hidden(*parts)

        policy.hidden = fail_at_second
        prompt = policy.encode(policy.render([question(1)], [READ_NOTE], True))
        first, second = requests = [sampling.Request(prompt, 1.0, 1, [], seed) for seed in (1, 2)]
        sampler = sampling.Sampler(policy, Namespace(version=0), sampling.Turns(), 2, 10**6, exact=True)
        with sampler.lock:  # so that both are sampled together
            for request in requests:
                sampler.submit(request)
        self.assertTrue(second.done.wait(60))
        self.assertIsInstance(second.error, MemoryError)
        self.assertIsNone(first.error)
        self.assertEqual((len(first.ids), first.finish is None), (1, False))

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
