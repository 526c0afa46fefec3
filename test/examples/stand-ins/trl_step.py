"""Starts the worker as AsyncGRPOTrainer does, next to what plays vLLM, and prints what would be trained."""

import dataclasses
import json
import logging
import sys
from types import SimpleNamespace

import trl_rollouts
from stand_in import completion, serve
from trl.experimental.async_grpo.async_rollout_worker import DEFAULTS

asked = []
sampled = []
warned = []


class Warned(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())


logging.getLogger("trl_rollouts").addHandler(Warned())


def vllm(path, headers, body):
    assert path == "/v1/chat/completions", path
    asked.append({name: body.get(name) for name in ("model", "max_tokens", "temperature", "return_token_ids")})
    answer = completion(body["messages"])
    choice = answer["choices"][0]
    if body["messages"][0]["content"].startswith("no ids"):
        del choice["token_ids"], answer["prompt_token_ids"]
    else:
        sampled.extend(zip(choice["token_ids"], [one["logprob"] for one in choice["logprobs"]["content"]]))
    return 200, answer


class Tokenizer:
    def decode(self, ids):
        return "".join(map(chr, ids))


rows = [
    {"prompt": [{"role": "user", "content": row["prompt"]}], "label": row["label"], "metadata": {"id": row["id"]}}
    for row in json.loads(sys.argv[2])
]
first = json.loads(sys.argv[2])[0]
args = SimpleNamespace(
    **{
        **DEFAULTS,
        "num_generations": first.get("attempts", 2),
        "max_inflight_tasks": 64,
        "vllm_server_base_url": serve(vllm),
        "max_completion_length": 7,
        "token_budget": first.get("tokenBudget"),
    }
)
# A dataset has all keys of all messages, and None where a message has none.
dataset = [{"prompt": [{**message, "name": None} for message in row["prompt"]]} for row in rows]
worker = trl_rollouts.osmosis_worker(
    sys.argv[1], rows, model="Qwen/Qwen3-8B", dataset=dataset, tokenizer=Tokenizer(), args=args
)
try:
    worker.start()
    error = None
except Exception as raised:
    error = str(raised)
trained = [dataclasses.asdict(worker.rollout_buffer.get_nowait()) for _ in range(worker.rollout_buffer.qsize())]
print(json.dumps({"error": error, "asked": asked[:1], "sampled": sampled, "trained": trained, "warned": warned}))
