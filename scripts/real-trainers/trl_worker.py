"""The programs of examples/trainers/python for TRL, against `osmosis serve --run`.

    python trl_worker.py

Real: AsyncRolloutWorker with its child process, _AsyncRolloutLoop, RolloutQueueDataset, TokenBudgetBatcher and
DataCollatorForRollout, and the chat template of Qwen2.5, which writes JSON with spaces. Stand-ins: that vLLM is
installed, the vocabulary (a token is a byte), and the model. It answers first with a tool call in compact JSON, so that
nothing continues with the tokens that it sampled, or with text, and then with a number, which is the reward.
"""

import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from importlib.metadata import version
from importlib.resources import files
from statistics import fmean, pstdev

import numpy as np

import harness
import policy

ATTEMPTS, TRIES = 8, 2
END = "<|im_end|>"
ARGUMENTS = '{"a":1,"b":[2,3]}'


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    bare = Tokenizer(models.BPE({letter: byte for byte, letter in bytes_to_unicode().items()}, []))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    template = files("trl").joinpath("chat_templates/qwen2_5.jinja").read_text()
    return PreTrainedTokenizerFast(tokenizer_object=bare, chat_template=template)


class Model:
    """What plays vLLM: each sampled token has a logprob of its own, by which it is found again."""

    def __init__(self, tokens):
        self.tokens, self.lock, self.calls, self.sampled = tokens, threading.Lock(), {}, 0

    def answer(self, body, number):
        messages = body["messages"]
        question, again = messages[0]["content"], len(messages) > 1
        if again:
            message, text = {"content": str(number / 4)}, f"{number / 4}{END}"
        elif "JSON" in question:
            text = f'<tool_call>\n{{"name":"add","arguments":{ARGUMENTS}}}\n</tool_call>{END}'
            function = {"name": "add", "arguments": ARGUMENTS}
            call = {"id": f"call-{number}", "type": "function", "function": function}
            message = {"content": None, "tool_calls": [call]}
        else:
            message, text = {"content": "A word."}, f"A word.{END}"
        prompt = self.rendered(messages)
        ids = policy.ids(text)
        with self.lock:
            logprobs = [-(self.sampled + n) / 2**14 for n in range(1, len(ids) + 1)]
            self.sampled += len(ids)
            self.calls[logprobs[0]] = question, prompt, ids, logprobs
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}, "token_ids": ids}
        choice["logprobs"] = {"content": [{"token": "", "logprob": one, "top_logprobs": []} for one in logprobs]}
        named = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": body["model"]}
        return {**named, "choices": [choice], "prompt_token_ids": prompt}

    def rendered(self, messages):
        """As vLLM does: the arguments of tool calls are objects for the template."""
        rendered = json.loads(json.dumps(messages))
        for message in rendered:
            for call in message.get("tool_calls") or []:
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        text = self.tokens.apply_chat_template(rendered, tokenize=False, add_generation_prompt=True)
        return policy.ids(text)

    def calls_of(self, row):
        """The model calls whose tokens a row of training trains, or None where the row differs from them."""
        ids, mask, logprobs = (row[name].tolist() for name in ("input_ids", "completion_mask", "old_log_probs"))
        found, at = [], 0
        while at < len(ids):
            if not mask[at]:
                at += 1
                continue
            question, prompt, said, likely = self.calls.get(logprobs[at], (None, None, [], []))
            until = at + len(said)
            if not said or (ids[:at], ids[at:until], logprobs[at:until]) != (prompt, said, likely):
                return None
            if mask[at:until] != [1] * len(said):
                return None
            found.append((question, likely[0]))
            at = until
        return found


def rows(count):
    """Rows of data that say how they end; for every second one the model answers in compact JSON."""
    wants = ["said", "said", "failed", "removed"]
    for n in range(count):
        text = f"Question {n}{', in JSON' if n % 2 else ''}?"
        prompt = [{"role": "user", "content": text}]
        yield {"prompt": prompt, "label": "0", "metadata": {"want": wants[n // 2 % 4]}}


def until_trained(worker, groups, timeout=180):
    """What TRL takes from the queue, until each of these groups has all its rows of training."""
    from trl.experimental.async_grpo.async_grpo_trainer import RolloutQueueDataset

    metrics = defaultdict(list)
    source = RolloutQueueDataset(worker.rollout_buffer, lambda: 0, worker.check_health, 60, metrics)
    found, deadline = defaultdict(list), time.monotonic() + timeout
    for row in source:
        found[row["group_id"]].append(row)
        if all(len(found[group]) == wanted for group, wanted in groups.items()):
            return [row for group in groups for row in found[group]]
        if time.monotonic() > deadline:
            raise TimeoutError({group: (len(found[group]), wanted) for group, wanted in groups.items()})


def batches_of(trained, budget):
    from trl.experimental.async_grpo.async_grpo_trainer import DataCollatorForRollout, TokenBudgetBatcher

    metrics = defaultdict(list)
    # The batcher keeps its last micro-batch open for more: these rows close it.
    nothing = {"completion_mask": np.zeros(budget, np.int64), "old_log_probs": np.zeros(budget, np.float32)}
    closing = [{**trained[0], **nothing, "input_ids": np.full(budget, n), "group_id": -n} for n in (1, 2, 3)]
    collate = DataCollatorForRollout(0, num_processes=2)
    return [collate([one]) for one in TokenBudgetBatcher(trained + closing, 2, budget, metrics)], metrics


def main():
    sys.path.insert(0, str(harness.ROOT / "examples/trainers/python"))
    from datasets import Dataset
    from trl.experimental.async_grpo import AsyncGRPOConfig, async_rollout_worker

    from trl_rollouts import osmosis_worker

    async_rollout_worker.is_vllm_available = lambda *_, **__: True
    tokens = tokenizer()
    model = Model(tokens)
    data = list(rows(16))
    args = AsyncGRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="osmosis-trl-"),
        vllm_server_base_url=policy.serve_policy(model.answer).removesuffix("/v1"),
        num_generations=ATTEMPTS,
        max_inflight_tasks=len(data) * ATTEMPTS,
        max_completion_length=64,
        bf16=False,
        use_cpu=True,
        report_to=[],
    )
    port = harness.free_port()
    server = harness.osmosis("serve", "--run", "--port", str(port), "--log-level", "error")
    url = f"http://127.0.0.1:{port}"
    # A rollout of text is one row of training; in one of compact JSON, the second call begins another.
    rows_of = {n: ATTEMPTS * (1 + n % 2) for n, row in enumerate(data) if row["metadata"]["want"] == "said"}
    worker = None
    try:
        harness.wait_for(f"{url}/health")
        dataset = Dataset.from_list([{"prompt": row["prompt"]} for row in data])
        worker = osmosis_worker(
            url, data, model=policy.MODEL, dataset=dataset, tokenizer=tokens, args=args, tries=TRIES
        )
        worker.start()
        trained = until_trained(worker, rows_of)
    finally:
        if worker is not None:
            worker.stop()
        harness.end(server)

    calls = [model.calls_of(row) for row in trained]
    found = [call for made in calls for call in made or []]
    batches, metrics = batches_of(trained, 2048)
    batched = [
        (labels[at], logprob)
        for batch in batches
        for labels, places, logprobs in zip(*(batch[name].tolist() for name in ("shift_labels", "token_index", "old_log_probs")))
        for at, logprob in zip(places, logprobs)
        if at >= 0
    ]
    wanted = {data[group]["prompt"][0]["content"]: 2 * ATTEMPTS for group in rows_of}
    counted = defaultdict(int)
    for question, _ in found:
        counted[question] += 1
    said = sum(len(model.calls[first][2]) for _, first in found)
    print(f"TRL {version('trl')}: {len(trained)} rows of training, {said} sampled tokens")
    return harness.verdict(
        {
            "each row has the prompts and answers of the model, token by token, with their logprobs": None not in calls,
            "each model call of each rewarded rollout is trained, once": counted == wanted
            and len(set(found)) == len(found),
            "compact JSON begins a row of its own, and is trained": sum("JSON" in made[0][0] for made in calls if made)
            == 2 * ATTEMPTS * len(rows_of) / 2,
            "each row has the reward and the advantage of its rollout": advantages_hold(trained, calls, model),
            "nothing of a failed or removed rollout is trained": {row["group_id"] for row in trained} == set(rows_of),
            "each sampled token is in a batch, once, with its logprob": sorted(batched)
            == sorted(pair for _, first in found for pair in zip(*model.calls[first][2:])),
            "the trainer dropped no row": not metrics,
        }
    )


def advantages_hold(trained, calls, model):
    """The second call says the reward; the row of the first one has the same where it is another."""
    rewards = defaultdict(list)
    for row, made in zip(trained, calls, strict=True):
        last = bytes(model.calls[made[-1][1]][2]).decode().removesuffix(END)
        own = row["metrics"]["reward"]
        rewards[row["group_id"]].append((own, row["advantage"]))
        if not last.startswith(("<", "A")) and float(last) != own:
            return False
    for pairs in rewards.values():
        # One for each rollout: rewards differ, and rows of one rollout have the same.
        each = dict(pairs)
        if len(each) != ATTEMPTS:
            return False
        mean, spread = fmean(each), pstdev(each)
        if any(abs(advantage - (own - mean) / (spread + 1e-8)) > 1e-6 for own, advantage in pairs):
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
