import asyncio
import functools
import json
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(int(os.environ.get("OSMOSIS_CONCURRENCY", "512")), thread_name_prefix="osmosis")


def run(server, row, *, base_url, model, sampling_params=None, trace=False, api_key=None, policy_key=None):
    """Runs a row to its end. The answer has a reward only if exit_status is completed."""
    body = {**row, "base_url": base_url, "model": model, "sampling_params": sampling_params or {}, "trace": trace}
    if policy_key is not None:
        body["api_key"] = policy_key
    headers = {"content-type": "application/json"}
    if api_key is not None:
        headers["authorization"] = f"Bearer {api_key}"
    request = urllib.request.Request(f"{server}/run", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


async def run_async(server, row, **settings):
    """As run, in a thread of the pool."""
    call = functools.partial(run, server, row, **settings)
    return await asyncio.get_running_loop().run_in_executor(pool, call)


def trained_calls(sample):
    return [call for call in sample["calls"] if call.get("trainable", True)]


def sequences(answer):
    """What is to be trained of a completed rollout that was run with trace=True."""
    found = []
    sampled = 0
    for sample in answer["trace"]:
        before = None
        for call in sample["calls"]:
            if "untrainable_reason" in call:
                raise ValueError(f"{call['untrainable_reason']}: vLLM 0.10.2 and newer give ids and logprobs")
        for call in trained_calls(sample):
            prompt, ids, logprobs = call["prompt_token_ids"], call["completion_token_ids"], call["logprobs"]
            sampled += len(ids)
            known = [] if before is None else before["prompt_ids"] + before["completion_ids"]
            if before is None or not call["extends_previous"] or prompt[: len(known)] != known:
                before = {"prompt_ids": prompt, "completion_ids": [], "logprobs": [], "mask": []}
                found.append(before)
                known = prompt
            between = prompt[len(known) :]
            before["completion_ids"] += between + ids
            before["logprobs"] += [0.0] * len(between) + logprobs
            before["mask"] += [0] * len(between) + [1] * len(ids)
    trained = sum(sum(one["mask"]) for one in found)
    if trained != sampled:
        raise ValueError(f"{trained} of {sampled} sampled tokens would be trained")
    return [one for one in found if any(one["mask"])]
