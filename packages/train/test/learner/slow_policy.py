"""The tiny policy, but its answers end at their limit, and each token after the first takes half a second."""
import time

from tiny_policy import TinyPolicy


class SlowPolicy(TinyPolicy):
    def __init__(self, options, weights=True):
        super().__init__(options, weights)
        self.end_ids = set()

    def step(self, state, rows, tokens):
        time.sleep(0.5)
        return super().step(state, rows, tokens)
