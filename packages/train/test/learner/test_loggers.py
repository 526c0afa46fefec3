"""Tests of loggers.py with fakes of the packages: python3 test_loggers.py"""
import json
import tempfile
import time
import unittest
from pathlib import Path

from learner_process import HERE
from tiny_learner import start


class Logging(unittest.TestCase):
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
