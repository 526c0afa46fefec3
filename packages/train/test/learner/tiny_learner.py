"""What tests of the learner's modules share: learners with the tiny policy, and the path on which the modules are found."""
import sys
import tempfile
import unittest
from argparse import Namespace

from learner_process import HERE, LEARNER, LearnerProcess

sys.path.insert(0, str(LEARNER.parent))


def start(policy="tiny_policy.py:TinyPolicy", *flags, **environment):
    return LearnerProcess("--model", "tiny", "--policy-class", str(HERE / policy), "--max-length", "512", *flags, **environment)


class WithPolicy(unittest.TestCase):
    """Each test begins with the weights of the start."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.learner, cls.beginning = start(), f"{folder.name}/start"
        cls.addClassCleanup(cls.learner.close)
        cls.learner.post("/save", {"folder": cls.beginning})

    def setUp(self):
        self.learner.post("/load", {"folder": self.beginning})


def tiny_policy(weights):
    from tiny_policy import TinyPolicy

    return TinyPolicy(Namespace(model="tiny", max_length=512), weights)
