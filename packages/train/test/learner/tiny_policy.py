"""A small transformer with byte-pair tokens and a ChatML-like template, for tests with torch alone.

It is trained on the first start: it answers the question for the code of a door, mostly without the tool that reads
the code. That takes some seconds; the weights are stored in the folder for temporary files.
"""
import contextlib
import copy
import hashlib
import json
import math
import os
import random
import re
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from policy import Policy
from torch import nn

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<tools>", "</tools>"]
PIECES = re.compile(r" ?[A-Za-z_]+|\d| ?[^\sA-Za-z_\d]+|\s+")
TOOL = {"type": "function", "function": {
    "name": "read_note", "description": "Reads the note that the code is written on.",
    "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
LETTERS = "abcd"


class Tokenizer:
    """Byte-level byte-pair encoding, with merges learned from one text."""

    def __init__(self, text, merges):
        words = Counter(tuple(bytes([b]) for b in piece.encode()) for piece in PIECES.findall(text))
        self.tokens = [bytes([b]) for b in range(256)]
        self.ranks = {}
        for rank in range(merges):
            pairs = Counter()
            for word, count in words.items():
                for pair in zip(word, word[1:]):
                    pairs[pair] += count
            if not pairs:
                break
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.ranks[best] = rank
            self.tokens.append(best[0] + best[1])
            merged = Counter()
            for word, count in words.items():
                merged[_merge(word, best)] += count
            words = merged
        self.ids = {token: at for at, token in enumerate(self.tokens)}
        self.special = {name: len(self.tokens) + at for at, name in enumerate(SPECIAL)}
        self.tokens += [name.encode() for name in SPECIAL]
        self.split = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")
        self.piece = lru_cache(10_000)(self._piece)

    def _piece(self, piece):
        word = tuple(bytes([b]) for b in piece.encode())
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda pair: self.ranks.get(pair, math.inf))
            if best not in self.ranks:
                break
            word = _merge(word, best)
        return [self.ids[token] for token in word]

    def encode(self, text):
        ids = []
        for part in self.split.split(text):
            if part in self.special:
                ids.append(self.special[part])
            else:
                ids += [i for piece in PIECES.findall(part) for i in self.piece(piece)]
        return ids

    def decode(self, ids):
        return b"".join(self.tokens[i] for i in ids).decode("utf-8", "replace")


def _merge(word, pair):
    out, at = [], 0
    while at < len(word):
        both = word[at : at + 2] == pair
        out.append(word[at] + word[at + 1] if both else word[at])
        at += 2 if both else 1
    return tuple(out)


class Transformer(nn.Module):
    def __init__(self, vocabulary, size=64, layers=2, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, size)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "norm": nn.LayerNorm(size), "qkv": nn.Linear(size, 3 * size), "out": nn.Linear(size, size),
                "norm2": nn.LayerNorm(size), "up": nn.Linear(size, 4 * size), "down": nn.Linear(4 * size, size)})
            for _ in range(layers))
        self.norm = nn.LayerNorm(size)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, ids, positions, seen, cache=None):
        """`seen` [rows, queries, keys] says what each position may look at; `cache` holds keys and values of each layer."""
        x, new_cache = self.embedding(ids), []
        for at, layer in enumerate(self.layers):
            query, key, value = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in layer["qkv"](layer["norm"](x)).chunk(3, -1))
            query, key = _rotate(query, positions), _rotate(key, positions)
            if cache is not None:
                key, value = torch.cat([cache[at][0], key], 2), torch.cat([cache[at][1], value], 2)
            new_cache.append((key, value))
            scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
            weights = scores.masked_fill(~seen[:, None], -1e9).softmax(-1)
            x = x + layer["out"]((weights @ value).transpose(1, 2).flatten(2))
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return self.norm(x), new_cache


def _rotate(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None, :, None] * 10_000.0 ** (-torch.arange(half) / half)
    first, second = x.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


class TinyPolicy(Policy):
    has_adapters = True  # all of its weights are few
    template = "<tool_call> </think>"

    def __init__(self, options, weights=True):
        torch.set_num_threads(1)
        self.name = options.model
        text = render([{"role": "user", "content": "What is the code of door 1?"},
                       {"role": "assistant", "content": CALL},
                       {"role": "tool", "content": " "}], [TOOL], True)
        self.tokenizer = Tokenizer(text * 4 + "system\n\n", 160)
        self.vocabulary_size = len(self.tokenizer.tokens)
        special = self.tokenizer.special
        self.end_ids = {special["<|im_end|>"], special["<|endoftext|>"]}
        self.max_length = min(options.max_length, 1024)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.module = Transformer(self.vocabulary_size)
        self.activation_bytes, self.cache_bytes = 2 * 20 * 64 * 4, 2 * 2 * 64 * 4
        if weights:
            self._load_warm()
            self.start_module = copy.deepcopy(self.module).requires_grad_(False)

    def render(self, messages, tools, answer, **settings):
        return render(messages, tools, answer)

    def encode(self, text):
        return self.tokenizer.encode(text)

    def decode(self, ids):
        return self.tokenizer.decode(ids)

    def hidden(self, ids, lengths):
        at = torch.arange(ids.shape[1])
        seen = (at[None, :, None] >= at[None, None]) & (at[None, None] < lengths[:, None, None])
        return self.module(ids, at[None].expand(ids.shape), seen)[0]

    def head(self, hidden):
        return hidden @ self.module.embedding.weight.T

    def start(self, prompts):
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
        real = torch.tensor([[False] * (width - len(p)) + [True] * len(p) for p in prompts])
        positions = (real.long().cumsum(-1) - 1).clamp(min=0)
        at = torch.arange(width)
        hidden, cache = self.module(ids, positions, (at[None, :, None] >= at[None, None]) & real[:, None])
        return self.head(hidden[:, -1]), (cache, real, positions[:, -1:])

    def step(self, state, rows, tokens):
        cache, real, position = state
        cache = [(key[rows], value[rows]) for key, value in cache]
        real = torch.cat([real[rows], real.new_ones(len(rows), 1)], 1)
        hidden, cache = self.module(tokens[:, None], position[rows] + 1, real[:, None], cache)
        return self.head(hidden[:, -1]), (cache, real, position[rows] + 1)

    def joins(self, state):
        return True

    def join(self, state, other):
        (cache, real, position), (more, other_real, other_position) = state, other
        width = max(real.shape[1], other_real.shape[1])

        def both(one, two, *after):
            at = one.dim() - 1 - len(after) // 2
            return torch.cat([F.pad(part, (*after, width - part.shape[at], 0)) for part in (one, two)])

        cache = [tuple(both(one, two, 0, 0) for one, two in zip(*pairs)) for pairs in zip(cache, more)]
        return cache, both(real, other_real), torch.cat([position, other_position])

    @contextlib.contextmanager
    def reference(self):
        trained, self.module = self.module, self.start_module
        try:
            yield
        finally:
            self.module = trained

    def export(self, folder, merged=False):
        torch.save(self.module.state_dict(), Path(folder) / ("whole.pt" if merged else "weights.pt"))

    def _load_warm(self):
        source = hashlib.sha256(Path(__file__).read_bytes() + torch.__version__.encode()).hexdigest()[:16]
        file = Path(tempfile.gettempdir()) / f"osmosis-tiny-policy-{source}.pt"
        if not file.exists():
            self._warm_up()
            partial = file.with_suffix(f".{os.getpid()}")
            torch.save(self.module.state_dict(), partial)
            partial.rename(file)
        self.module.load_state_dict(torch.load(file))

    def _warm_up(self, seed=0):
        """It first learns to repeat what it read, however long that takes, and then to do so seldom."""
        chance, optimizer = random.Random(seed), torch.optim.AdamW(self.module.parameters(), lr=3e-3, weight_decay=0.0)
        mean, step = 1.0, 0
        while mean > 0.01:
            step += 1
            _set_rate(optimizer, 3e-3 * min(1, step / 20))
            mean = 0.9 * mean + 0.1 * self._imitate(optimizer, [self._demonstration(chance, 1, 1) for _ in range(16)])
            if step == 1500:
                raise RuntimeError(f"the policy has not learned to repeat what it read: its loss is {mean:.3f}")
        _set_rate(optimizer, 1e-3)
        for _ in range(40):
            self._imitate(optimizer, [self._demonstration(chance, 0.3, 0.7) for _ in range(16)])

    def _demonstration(self, chance, calls, copies):
        def code():
            return chance.choice(LETTERS) + chance.choice(LETTERS)

        messages = [{"role": "user", "content": f"What is the code of door {chance.randrange(16)}?"}]
        note, said = code(), code()
        if chance.random() < calls:
            said = note if chance.random() < copies else said
            messages += [{"role": "assistant", "content": CALL}, {"role": "tool", "content": note}]
        messages.append({"role": "assistant", "content": said})
        ids, mask = [], []
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                prompt = self.encode(render(messages[:at], [TOOL], True))
                ids, mask = prompt, mask + [0] * (len(prompt) - len(mask))
                answer = self.encode(message["content"] + "<|im_end|>")
                ids, mask = ids + answer, mask + [1] * len(answer)
        return ids, mask

    def _imitate(self, optimizer, rows):
        width = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
        mask = torch.tensor([mask + [0] * (width - len(mask)) for _, mask in rows])[:, 1:]
        hidden = self.hidden(ids, torch.tensor([len(ids) for ids, _ in rows]))
        losses = F.cross_entropy(self.head(hidden[:, :-1]).transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (losses * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        optimizer.step()
        return loss.item()


def _set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def render(messages, tools, answer):
    """Like Qwen3's template: reasoning is left out of answers before the last question."""
    text, messages = "", list(messages)
    system = [messages.pop(0)["content"]] if messages[0]["role"] == "system" else []
    if tools:
        system.append("\n".join(["<tools>", *map(_describe, tools), "</tools>"]))
    if system:
        text += _turn("system", "\n\n".join(system))
    question = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    for at, message in enumerate(messages):
        content = message.get("content") or ""
        for call in message.get("tool_calls") or []:
            function = call["function"]
            content += "\n" if content else ""
            content += f'<tool_call>\n{{"name": {json.dumps(function["name"])}, "arguments": {function["arguments"]}}}\n</tool_call>'
        if message.get("reasoning_content") and at > question:
            content = f"<think>\n{message['reasoning_content']}\n</think>\n\n{content}"
        text += _turn(message["role"], content)
    return text + "<|im_start|>assistant\n" if answer else text


def _describe(tool):
    function = tool["function"]
    return f"{function['name']} {json.dumps(function['parameters']['properties'])}: {function['description']}"


def _turn(role, content):
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"
