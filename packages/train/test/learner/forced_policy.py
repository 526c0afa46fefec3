"""The tiny policy, but its answers are written in the request: the user says `answer: <JSON string>` or several of them.

The answer is sampled byte by byte, which is never how the tokenizer would split it, and ends with the end token.
"""
import json
import re

import torch
from tiny_policy import SPECIAL, TinyPolicy


class ForcedPolicy(TinyPolicy):
    def start(self, prompts):
        logits, state = super().start(prompts)
        forced = [self._answer(self.decode(prompt)) for prompt in prompts]
        return self._force(logits, forced), (state, forced)

    def step(self, state, rows, tokens):
        state, forced = state
        forced = [forced[row][1:] for row in rows.tolist()]
        logits, state = super().step(state, rows, tokens)
        return self._force(logits, forced), (state, forced)

    def join(self, state, other):
        return super().join(state[0], other[0]), state[1] + other[1]

    def _answer(self, prompt):
        answers = [json.loads(line) for line in re.findall(r"^answer: (.*?)(?:<\|im_end\|>)?$", prompt, re.MULTILINE)]
        text = answers[len(re.findall(r"<\|im_start\|>assistant\n", prompt)) - 1]
        special, ids = self.tokenizer.special, []
        for part in re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text):
            ids += [special[part]] if part in special else list(part.encode())
        return [*ids, special["<|im_end|>"]]

    def _force(self, logits, forced):
        bonus = torch.zeros_like(logits)
        for row, ids in enumerate(forced):
            bonus[row, ids[0]] = 100.0
        return logits + bonus
