"""A policy whose logits are linear in its weights: a row for the last token and one for the token before it. So its gradient can
be written down by hand, as `reference_update.py` does. Tokens 2n and 2n + 1 are both the n-th letter; the last two are special.
"""
import contextlib
import copy
import json
import sys
from pathlib import Path

import torch
from policy import Policy

VOCABULARY = 12
LETTERS = "abcde"
END, ASK = 10, 11


def first_weights():
    """[vocabulary, 2 * vocabulary], between -0.5 and 0.5."""
    return [[((7 * to + 5 * before + to * before) % 11 - 5) / 10 for before in range(2 * VOCABULARY)] for to in range(VOCABULARY)]


class TablePolicy(Policy):
    template, max_length, vocabulary_size, end_ids = "", 64, VOCABULARY, {END}
    has_adapters = True  # all of its weights are few

    def __init__(self, options, weights=True):
        torch.set_num_threads(1)
        self.name = options.model
        self.module = torch.nn.Linear(2 * VOCABULARY, VOCABULARY, bias=False)
        with torch.no_grad():
            self.module.weight.copy_(torch.tensor(first_weights()))
        self.first = copy.deepcopy(self.module).requires_grad_(False)

    def render(self, messages, tools, answer, **settings):
        turns = [(message["content"] or "") + "." for message in messages]
        return "".join(turns) + ("?" if answer else "")

    def encode(self, text):
        return [END if sign == "." else ASK if sign == "?" else 2 * LETTERS.index(sign) for sign in text]

    def decode(self, ids):
        return "".join("." if i == END else "?" if i == ASK else LETTERS[i // 2] for i in ids)

    def hidden(self, ids, lengths):
        own = torch.nn.functional.one_hot(ids, VOCABULARY).float()
        return torch.cat([own, torch.nn.functional.pad(own, (0, 0, 1, 0))[:, :-1]], -1)

    def head(self, hidden):
        return self.module(hidden)

    def start(self, prompts):
        return self.logits(prompts), prompts

    def step(self, state, rows, tokens):
        state = [[*state[row], token] for row, token in zip(rows.tolist(), tokens.tolist())]
        return self.logits(state), state

    def logits(self, conversations):
        ends = torch.tensor([([0] + ids)[-2:] for ids in conversations])
        hidden = self.hidden(ends, None)[:, -1]
        hidden[[row for row, ids in enumerate(conversations) if len(ids) < 2], VOCABULARY:] = 0
        return self.head(hidden)

    @contextlib.contextmanager
    def reference(self):
        trained, self.module = self.module, self.first
        try:
            yield
        finally:
            self.module = trained

    def export(self, folder):
        Path(folder, "weights.json").write_text(json.dumps(self.module.weight.tolist()))


class CallingPolicy(TablePolicy):
    template = "<tool_call> <function="  # it accepts tools


class ImpatientPolicy(TablePolicy):
    """Its learner waits a second for requests, and takes three connections at once."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        program = sys.modules["__main__"]
        program.Handler.patience, program.Server.most_connections = 1, 3


class CrowdedPolicy(TablePolicy):
    """Its logits depend on how many answers are sampled together, as rounding makes those of every model, but by far more."""

    def logits(self, conversations):
        logits = super().logits(conversations)
        return logits + 0.1 * min(len(conversations), 3) * (-1.0) ** torch.arange(VOCABULARY)
