"""Measures the learner on a GPU with a seeded Qwen3 of 0.6 billion random weights, in about five minutes: python3 gpu.py

It needs a Python with torch, transformers and peft, no network, and these files of the repository (0.2 MB), which it makes the model from:

    git archive HEAD scripts/real-models packages/train/learner packages/create/templates/examples/doors | tar -x -C FOLDER

It prints one JSON line per figure, and a table. Tokens of a second are those that were sampled, or all tokens of the trained sequences.
"Plain" is transformers and peft themselves, without this project. What does not fit into `--minutes` is named and left out.
`--tiny` does the same with a tiny model on any machine: it shows that the script works, and its figures mean nothing.
"""
import argparse
import contextlib
import http.client
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEARNER = ROOT / "packages/train/learner"
sys.path[:0] = [str(LEARNER), str(ROOT / "packages/create/templates/examples/doors")]

import peft
import torch
import transformers
from policy import TransformersPolicy


@dataclass(frozen=True)
class Size:
    """What is measured: the shape of the model, how many conversations at once, and tokens of an answer and of a micro-batch."""

    shape: dict
    counts: tuple
    tokens: int
    micro_batch: int


# The shape of Qwen3-0.6B.
QWEN = Size(
    {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
     "head_dim": 128, "vocab_size": 151_936}, counts=(1, 16, 64), tokens=64, micro_batch=8192)
TINY = Size(
    {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
     "head_dim": 16, "vocab_size": 512}, counts=(1, 4, 8), tokens=8, micro_batch=512)
# The last norm is so large that some tokens are likely, as with trained weights, not 150,000 alike.
NORM = 7
RANK = 16


class MeasuredPolicy(TransformersPolicy):
    """Its export is a file with the most memory that was in use since the last export."""

    def export(self, folder):
        (Path(folder) / "memory.json").write_text(json.dumps(most_memory()))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def most_memory():
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Figures:
    def __init__(self, minutes):
        self.card = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        self.end, self.rows = time.monotonic() + 60 * minutes, []

    def add(self, figure, what, value, unit):
        self.rows.append((figure, what, f"{value:.4g}" if isinstance(value, float) else f"{value:,}", unit))
        print(json.dumps({"figure": figure, "what": what, "value": value, "unit": unit, "card": self.card}), flush=True)

    @contextlib.contextmanager
    def part(self, name):
        """One part's error does not end the others."""
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            print(json.dumps({"failed": name, "error": f"{type(error).__name__}: {error}"[:600]}), flush=True)
        print(f"{name}: {time.monotonic() - began:.0f} s, {self.end - time.monotonic():.0f} s are left", file=sys.stderr, flush=True)

    def fits(self, name, seconds):
        fits = time.monotonic() + seconds < self.end
        if not fits:
            print(json.dumps({"left out": name}), flush=True)
        return fits

    def table(self):
        print(f"\n| {self.card} | | | |\n| --- | --- | --: | --- |")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")


class Learner:
    """learner.py in a process of its own, as `osmosis train local` starts it."""

    def __init__(self, model, folder, size, rank, dtype, longest):
        flags = {"--model": model, "--lora-rank": rank, "--dtype": dtype, "--max-length": longest, "--batch": max(size.counts),
                 "--micro-batch-tokens": size.micro_batch, "--sampler": "torch",
                 "--policy-class": f"{Path(__file__).resolve()}:MeasuredPolicy"}
        self.folder, self.size = folder, size
        self.process = subprocess.Popen(
            [sys.executable, str(LEARNER / "learner.py"), *(str(part) for flag in flags.items() for part in flag)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OSMOSIS_LEARNER_KEY": "key"}, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"learner.py ended with code {self.process.wait()}")
        self.ready = json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the process; may be called again."""
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def post(self, path, body):
        connection = http.client.HTTPConnection(self.ready["url"].removeprefix("http://"), timeout=300)
        connection.request("POST", path, json.dumps(body), {"authorization": "Bearer key"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if "error" in answer:
            raise RuntimeError(f"{path}: {answer['error']['message']}")
        return answer

    def answers(self, conversations, tokens, seed=0):
        with ThreadPoolExecutor(len(conversations)) as pool:
            return list(pool.map(lambda at: self.post("/v1/chat/completions", {
                "messages": conversations[at], "max_tokens": tokens, "seed": seed + at}), range(len(conversations))))

    def memory(self):
        self.post("/export", {"folder": f"{self.folder}/memory"})
        return json.loads(Path(f"{self.folder}/memory/memory.json").read_text())


def make_model(folder, size, device):
    from make_tiny_model import make_tokenizer

    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        **size.shape, max_position_embeddings=40_960, tie_word_embeddings=True, rope_parameters={
            "rope_type": "default", "rope_theta": 1_000_000},
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None)
    with torch.device(device):
        model = transformers.Qwen3ForCausalLM(config).bfloat16()
    model.model.norm.weight.data.fill_(NORM)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_conversations(count):
    """Questions of about 70 tokens."""
    chance = random.Random(0)
    words = ["note", "code", "door", "read", "What", "is", "the", "of"]
    return [[{"role": "user", "content": " ".join(chance.choices(words, k=chance.randint(40, 60)))}] for _ in range(count)]


def plain_model(folder, device, dtype, lora):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device)
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"))
    return model.eval()


def padded(prompts, device):
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
    return ids, torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)


@torch.no_grad()
def generate(model, prompts, tokens):
    ids, mask = padded(prompts, model.device)
    model.generation_config.eos_token_id = None
    model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=True, top_k=0, top_p=1.0, pad_token_id=0).tolist()


@torch.no_grad()
def bare_loop(model, prompts, tokens):
    """With a cache, and the logprob of each token, which a training needs."""
    ids, mask = padded(prompts, model.device)
    positions, cache = (mask.cumsum(-1) - 1).clamp(min=0), None
    for _ in range(tokens):
        out = model(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        ids, logprobs = pick(out.logits)
        [ids.tolist(), logprobs.tolist()]
        mask, positions = torch.cat([mask, mask.new_ones(len(mask), 1)], 1), positions[:, -1:] + 1


def pick(logits):
    logprobs = torch.log_softmax(logits[:, -1].float(), -1)
    # As torch.multinomial draws, without waiting for the GPU.
    ids = (logprobs.exp() / torch.empty_like(logprobs).exponential_()).argmax(-1, keepdim=True)
    return ids, logprobs.gather(-1, ids)


@torch.no_grad()
def graph_loop(model, prompts, tokens):
    """The same with a cache of fixed size, so that all kernels of a token start at once. Returns the seconds without the capture."""
    ids, mask = padded(prompts, model.device)
    rows, width = ids.shape
    cache = transformers.StaticCache(config=model.config, max_cache_len=width + tokens + 4)
    # Padding sees itself, since it has to see something.
    itself = torch.eye(width, width + tokens + 4, dtype=torch.bool, device=model.device)
    causal = torch.ones_like(itself).tril()
    seen = torch.cat([mask.bool(), mask.new_zeros(rows, tokens + 4, dtype=torch.bool)], 1)
    positions, at = (mask.cumsum(-1) - 1).clamp(min=0), torch.full((rows, 1, 1, 1), width, device=model.device)

    def forward(ids, positions, mask):
        return pick(model(input_ids=ids, attention_mask={"full_attention": mask}, position_ids=positions, past_key_values=cache,
                          use_cache=True, logits_to_keep=1).logits)

    began = time.perf_counter()
    ids, _ = forward(ids, positions, seen[:, None, None] & causal | itself)
    ids.tolist()
    seconds = time.perf_counter() - began
    seen, positions = seen[:, None, None], positions[:, -1:] + 1

    def step():
        seen.scatter_(3, at, True)
        new, logprobs = forward(ids, positions, seen)
        ids.copy_(new)
        positions.add_(1)
        at.add_(1)
        return logprobs

    if model.device.type == "cuda":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logprobs = step()
    began = time.perf_counter()
    for _ in range(tokens - 1):
        if model.device.type == "cuda":
            graph.replay()
        else:
            logprobs = step()
        [ids.tolist(), logprobs.tolist()]
    return seconds + time.perf_counter() - began


def plain_update(model, optimizer, sequences, micro_batch):
    """The policy gradient of these sequences; logits are computed for the sampled tokens alone."""
    order, tokens, at = sorted(sequences, key=lambda s: -len(s["ids"])), sum(sum(s["mask"]) for s in sequences), 0
    while at < len(order):
        batch = order[at : at + max(1, micro_batch // len(order[at]["ids"]))]
        at += len(batch)
        width = len(batch[0]["ids"])
        ids, mask, real = (
            torch.tensor([values + [0] * (width - len(values)) for values in some], device=model.device)
            for some in ([s["ids"] for s in batch], [s["mask"] for s in batch], [[1] * len(s["ids"]) for s in batch]))
        causal = model.get_base_model() if isinstance(model, peft.PeftModel) else model
        hidden = causal.model(input_ids=ids, attention_mask=real, use_cache=False).last_hidden_state[:, :-1]
        trained = mask[:, 1:].bool()
        losses = torch.nn.functional.cross_entropy(causal.lm_head(hidden[trained]).float(), ids[:, 1:][trained], reduction="none")
        advantages = torch.tensor([s["advantage"] for s in batch], device=model.device)[:, None].expand(-1, width - 1)[trained]
        ((losses * advantages).sum() / tokens).backward()
    torch.nn.utils.clip_grad_norm_([w for w in model.parameters() if w.requires_grad], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    next(model.parameters()).sum().item()


def seconds_of(run, warm_up):
    """The mean of two runs. A run can return its own seconds."""
    warm_up()
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        own = run()
        seconds.append(time.perf_counter() - began if own is None else own)
    return statistics.mean(seconds)


def sequence(answer, advantage):
    prompt, choice = answer["prompt_token_ids"], answer["choices"][0]
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    return {"ids": prompt + choice["token_ids"], "mask": [0] * len(prompt) + [1] * len(logprobs),
            "logprobs": [0] * len(prompt) + logprobs, "advantage": advantage}


def measure_learner(figures, learner, name, rate, conversations, again):
    size, needs = learner.size, learner.ready["memory_bytes"]
    learner.memory()
    for count in size.counts:
        sampled = []

        def sample(count=count, sampled=sampled):
            sampled[:] = learner.answers(conversations[:count], size.tokens)

        seconds = seconds_of(sample, lambda count=count: learner.answers(conversations[:count], 4))
        tokens = sum(answer["usage"]["completion_tokens"] for answer in sampled)
        figures.add("sampling", f"learner, {name}, {count} at once", tokens / seconds, "tokens/s")
    for key in ("weights", "cache"):
        figures.add("memory estimate", f"{name}, {key}", needs[key] / 1e9, "GB")
    figures.add("memory used", f"{name}, while sampling", learner.memory() / 1e9, "GB")

    sequences = [sequence(answer, (-1.0) ** at) for at, answer in enumerate(sampled)]
    body = {"loss": "policy_gradient", "sequences": sequences, "max_drift": 1e9, "learning_rate": rate}
    first = learner.post("/update", body)
    for key in ("drift_mean", "drift_max", "entropy"):
        figures.add("drift", f"{name}, {key}", float(first[key]), "nats")

    def update():
        learner.post("/update", body)

    seconds = seconds_of(update, update)
    tokens = sum(len(s["ids"]) for s in sequences)
    figures.add("update", f"learner, {name}", tokens / seconds, "tokens/s")
    figures.add("memory estimate", f"{name}, update", (needs["weights"] + needs["optimizer"] + needs["activations"]) / 1e9, "GB")
    figures.add("memory used", f"{name}, in an update", learner.memory() / 1e9, "GB")

    def logprobs(learner):
        return [value for values in learner.post("/logprobs", {"sequences": sequences[:8]})["logprobs"] for value in values]

    def difference(one, other):
        return max(abs(a - b) for a, b in zip(one, other, strict=True))

    expected, began = logprobs(learner), time.perf_counter()
    learner.post("/save", {"folder": f"{learner.folder}/{name}"})
    figures.add("save", name, time.perf_counter() - began, "s")
    with contextlib.ExitStack() as stack:
        other = learner
        if again:
            learner.close()
            other = stack.enter_context(again())
        else:
            other.post("/update", body)
        start = logprobs(other)
        began = time.perf_counter()
        other.post("/load", {"folder": f"{learner.folder}/{name}"})
        figures.add("load", f"{name}{', in a new process' if again else ''}", time.perf_counter() - began, "s")
        figures.add("load", f"{name}, largest difference of logprobs before loading", difference(start, expected), "nats")
        figures.add("load", f"{name}, largest difference of logprobs after loading", difference(logprobs(other), expected), "nats")
    return sequences


def measure_plain(figures, folder, size, device, name, dtype, lora, prompts, sequences):
    model = plain_model(folder, device, dtype, lora)
    def measure_sampling(engine, sample):
        with figures.part(f"{engine}, {name}"):
            for count in size.counts:
                if figures.fits(f"{engine}, {name}, {count} at once", 15):
                    seconds = seconds_of(lambda: sample(model, prompts[:count], size.tokens), lambda: sample(model, prompts[:count], 4))
                    figures.add("sampling", f"{engine}, {name}, {count} at once", count * size.tokens / seconds, "tokens/s")

    def update():
        plain_update(model, optimizer, sequences, size.micro_batch)

    def measure_update(what, checkpointing):
        what = f"plain loop, {name}, {what}"
        with figures.part(what):
            if checkpointing:
                model.gradient_checkpointing_enable({"use_reentrant": False})
            else:
                model.gradient_checkpointing_disable()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            if figures.fits(what, 15):
                seconds = seconds_of(update, update)
                figures.add("update", what, sum(len(s["ids"]) for s in sequences) / seconds, "tokens/s")
                figures.add("memory used", what, most_memory() / 1e9, "GB")

    measure_sampling("transformers.generate", generate)
    measure_sampling("bare loop", bare_loop)
    optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], lr=1e-6, weight_decay=0.0)
    model.train()
    measure_update("with gradient checkpointing", True)
    measure_update("without", False)
    if dtype == torch.float32:
        torch.backends.cuda.matmul.allow_tf32 = True
        measure_update("without, matrix products in TF32", False)
        torch.backends.cuda.matmul.allow_tf32 = False
    elif not lora:
        measure_sampling("bare loop in a CUDA graph", graph_loop)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--minutes", type=float, default=6.5)
    options = parser.parse_args()
    figures, size = Figures(options.minutes), TINY if options.tiny else QWEN
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        tokenizer = make_model(model, size, device)
        conversations = make_conversations(max(size.counts))
        prompts = [tokenizer.apply_chat_template(each, add_generation_prompt=True, return_dict=False) for each in conversations]
        longest = max(map(len, prompts)) + size.tokens
        for name, rank, dtype, rate, needed in (
                ("LoRA, bf16", RANK, "bfloat16", 1e-3, 80), ("all weights, bf16", 0, "bfloat16", 1e-6, 50),
                ("all weights, fp32", 0, "float32", 1e-6, 50)):
            if not figures.fits(name, needed):
                continue
            sequences = None

            def start(rank=rank, dtype=dtype):
                return Learner(model, folder, size, rank, dtype, longest)

            with figures.part(f"learner, {name}"), start() as learner:
                sequences = measure_learner(figures, learner, name, rate, conversations, start if rank else None)
            if sequences:
                with figures.part(f"plain, {name}"):
                    measure_plain(figures, model, size, device, name, getattr(torch, dtype), rank > 0, prompts, sequences)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    figures.table()


if __name__ == "__main__":
    main()
