"""Tests of training.py over HTTP: python3 test_training.py"""
import os
import tempfile
import unittest

from doors import attempt_doors
from learner_process import question, sequence
from tiny_learner import WithPolicy, start


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
            reward, sequences = attempt_doors(self.learner)
            rewards.append(reward)
            if step < 8:
                self.assertLess(self.update(sequences, learning_rate=1e-3, epochs=2, minibatches=2, seed=step)["drift_max"], 1e-4)
        self.assertLess(rewards[0], 0.6, rewards)
        self.assertGreater(max(rewards), rewards[0] + 0.25, rewards)


if __name__ == "__main__":
    unittest.main(verbosity=2)
