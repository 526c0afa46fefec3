"""Calls the rollout function as GRPOTrainer does, in front of what plays `trl vllm-serve`."""

import json
import sys

import trl_rollouts
from stand_in import LOGPROB, rendered, said, serve

batches = []


def chat(path, headers, body):
    assert path == "/chat/", path
    batches.append(len(body["messages"]))
    completions = [[ord(letter) for letter in said(messages)] for messages in body["messages"]]
    return 200, {
        "prompt_ids": [rendered(messages) for messages in body["messages"]],
        "completion_ids": completions,
        "logprobs": [[[LOGPROB] for _ in ids] for ids in completions],
        "logprob_token_ids": None,
    }


class Tokenizer:
    def decode(self, ids, skip_special_tokens):
        return "".join(map(chr, ids))


class Trainer:
    processing_class = Tokenizer()


rows = json.loads(sys.argv[2])
rollout_func = trl_rollouts.make_rollout_func(sys.argv[1], rows, trl_server=serve(chat))
output = rollout_func([row["prompt"] for row in rows for _ in range(2)], Trainer())
rewards = trl_rollouts.osmosis_reward(prompts=[], completions=[], **{"osmosis_reward": output["osmosis_reward"]})
print(json.dumps({**output, "rewards": rewards, "calls": sum(batches)}))
