import copy
import os
import uuid

from slime.agent.adapters import OpenAIAdapter
from slime.agent.aiohttp_threaded import run_app_in_thread
from slime.utils.processing_utils import load_tokenizer

from osmosis_run import run_async

shared = {}


def adapter_of(args):
    if not shared:
        shared["adapter"] = OpenAIAdapter(
            tokenizer=load_tokenizer(args.hf_checkpoint, trust_remote_code=True),
            sglang_url=f"http://{args.sglang_router_ip}:{args.sglang_router_port}",
            tool_parser=getattr(args, "sglang_tool_call_parser", None),
            reasoning_parser=getattr(args, "sglang_reasoning_parser", None),
            fork_threshold_tokens=0,
        )
        host = os.environ.get("ADAPTER_HOST", "127.0.0.1")
        port = run_app_in_thread(shared["adapter"].app, host=host, port=0).port
        shared["url"] = f"http://{host}:{port}/v1"
    return shared["adapter"], shared["url"]


async def generate(args, sample, sampling_params):
    adapter, url = adapter_of(args)
    session = uuid.uuid4().hex
    adapter.open_session(session, sampling_defaults=sampling_params)
    answer = await run_async(
        os.environ["OSMOSIS_SERVER"],
        {**sample.metadata, "messages": sample.prompt, "label": sample.label},
        base_url=url,
        model="policy",
        sampling_params=sampling_params,
        api_key=os.environ.get("OSMOSIS_KEY"),
        policy_key=session,
    )
    end = {"exit_status": answer["exit_status"]}
    samples = await adapter.finish_session(
        session, base_sample=sample, reward=answer.get("reward", 0.0), extra_metadata=end
    )
    if answer["exit_status"] == "completed" and samples:
        return samples
    failed = copy.copy(sample)
    failed.metadata = {**sample.metadata, "exit_status": "failed"}
    failed.tokens, failed.response_length, failed.loss_mask = [0, 0], 1, [0]
    failed.reward, failed.remove_sample = 0.0, True
    failed.status = type(sample).Status.FAILED
    return failed


def keep_completed(args, group, **kwargs):
    attempts = [sample if isinstance(sample, list) else [sample] for sample in group]
    return all(part.metadata.get("exit_status") == "completed" for parts in attempts for part in parts)
