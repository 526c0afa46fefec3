"""Compares the learner with plain transformers and peft, on this machine: python3 benchmarks/learner.py [--sizes 100k,135m,600m]

Models are Qwen3 with seeded random weights and LoRA adapters, in float32 on a CPU. It needs torch, transformers and peft, and no network. The
last line is JSON.
"""
import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts/real-models"))

import gpu
import torch

SHAPE = {"head_dim": 64, "norm": 7, "counts": (1, 16, 64), "micro_batch": 1024}
SIZES = {
    "100k": {**gpu.SIZES[True], **SHAPE, "head_dim": 16, "tokens": 64, "trained": 64},
    # The form of SmolLM2-135M.
    "135m": {**SHAPE, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
             "num_key_value_heads": 3, "vocab_size": 49_152, "tokens": 32, "trained": 64},
    "600m": {**gpu.SIZES[False], **SHAPE, "head_dim": 128, "tokens": 16, "trained": 16}}


def best_speeds(engines):
    """The tokens of a second of each, in the better of two runs. They take turns, so that a slow moment of the machine meets all of them."""
    speeds = {engine: [] for engine in engines}
    for _ in range(2):
        for engine, run in engines.items():
            began = time.perf_counter()
            tokens = run()
            speeds[engine].append(tokens / (time.perf_counter() - began))
    return {engine: max(some) for engine, some in speeds.items()}


def delay_of_second_turns(learner, conversations):
    """Seconds that 31 short second turns take in the median, alone and beside an answer of 600 tokens."""

    def turns(with_long):
        long = threading.Thread(target=learner.answers, args=([conversations[31]], 600))
        if with_long:
            long.start()
        learner.answers(conversations[:31], 8)
        began = time.perf_counter()
        learner.answers(conversations[:31], 8, seed=100)
        seconds = time.perf_counter() - began
        if with_long:
            long.join()
        return seconds

    return [statistics.median(turns(with_long) for _ in range(3)) for with_long in (False, True)]


def measure(name, size, folder):
    rows = {}

    def add(what, figures):
        rows[f"{name}, {what}"] = figures
        print(f"{name}, {what}: {figures}", file=sys.stderr, flush=True)

    def compare(what, engines):
        speeds = best_speeds(engines)
        best = max(speed for engine, speed in speeds.items() if engine != "learner")
        add(what, {**{f"{engine}, tokens/s": round(speed, 1) for engine, speed in speeds.items()}, "of the best": round(speeds["learner"] / best, 2)})

    model = f"{folder}/{name}"
    tokenizer = gpu.make_model(model, size, "cpu")
    # Short ones, so that sampling is measured more than the reading of prompts.
    conversations = [[{**message, "content": message["content"][:40]} for message in each] for each in gpu.make_conversations(64)]
    prompts = [tokenizer.apply_chat_template(each, add_generation_prompt=True, return_dict=False) for each in conversations]
    longest = max(map(len, prompts)) + 600
    plain = gpu.plain_model(model, "cpu", torch.float32, True)
    with gpu.Learner(model, folder, size, gpu.RANK, "float32", longest) as learner:
        tokens, sampled = size["tokens"], []

        def sample(count):
            sampled[:] = learner.answers(conversations[:count], tokens)
            return sum(answer["usage"]["completion_tokens"] for answer in sampled)

        def plainly(run, count):
            run(plain, prompts[:count], tokens)
            return count * tokens

        for count in size["counts"]:
            compare(f"sampling {count} at once", {
                "learner": lambda count=count: sample(count),
                "transformers.generate": lambda count=count: plainly(gpu.generate, count),
                "bare loop": lambda count=count: plainly(gpu.bare_loop, count)})
        sequences = [gpu.sequence(answer, (-1.0) ** at) for at, answer in enumerate(sampled)][: size["trained"]]
        optimizer = torch.optim.AdamW([w for w in plain.parameters() if w.requires_grad], lr=1e-6, weight_decay=0.0)

        def update():
            learner.post("/update", {"loss": "policy_gradient", "sequences": sequences, "max_drift": 1e9, "learning_rate": 1e-6})
            return sum(len(s["ids"]) for s in sequences)

        def plain_update():
            gpu.plain_update(plain, optimizer, sequences, size["micro_batch"])
            return sum(len(s["ids"]) for s in sequences)

        compare("update", {"learner": update, "plain loop": plain_update})
        if name != "600m":
            alone, beside = delay_of_second_turns(learner, conversations)
            add("31 second turns", {"alone, s": round(alone, 3), "beside 600 tokens, s": round(beside, 3)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(SIZES))
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in parser.parse_args().sizes.split(","):
            rows |= measure(name, SIZES[name], folder)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
