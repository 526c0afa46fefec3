"""Miles' own session server and agentic_tool_call against `osmosis serve --run`.

    python miles_session.py <checkout of radixark/miles>

Real: SessionServer, agentic_tool_call.generate, OpenAIEndpointTracer, and the agent, reward and filter of examples/trainers/miles,
which are read out of the page. Made on the spot: a tokenizer of bytes. Stand-ins, where they are not installed: ray, of which
nothing is used here, and the one class of sglang that names the settings of a request.
"""

import argparse
import asyncio
import importlib.util
import os
import sys
import tempfile
import threading
import time
import types

sys.path.insert(0, sys.argv[1])

import harness
import policy

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\x03{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def stand_ins():
    if importlib.util.find_spec("ray") is None:
        sys.modules["ray"] = types.ModuleType("ray")
    if importlib.util.find_spec("sglang") is None:
        name = "sglang"
        for part in ("srt", "entrypoints", "openai", "protocol"):
            sys.modules[name] = types.ModuleType(name)
            name = f"{name}.{part}"
        settings = dict.fromkeys(("model", "messages", "temperature", "top_p", "max_tokens", "seed"))
        protocol = types.ModuleType(name)
        protocol.ChatCompletionRequest = type("ChatCompletionRequest", (), {"model_fields": settings})
        sys.modules[name] = protocol


def tokenizer_in(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bare.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, chat_template=TEMPLATE)
    tokenizer.save_pretrained(folder)
    return tokenizer


def start_session_server(args, backend):
    import uvicorn
    from miles.rollout.session.server import SessionServer

    config = uvicorn.Config(SessionServer(args, backend).app, port=args.session_server_port, log_level="warning")
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)


def arguments(folder, port):
    return argparse.Namespace(
        hf_checkpoint=folder,
        chat_template_path=None,
        apply_chat_template_kwargs=None,
        tito_model="default",
        session_message_matcher="strict",
        use_session_server=True,
        session_server_ip="127.0.0.1",
        session_server_port=port,
        session_server_ports=[port],
        session_server_instance_id="instance",
        session_server_instance_ids={port: "instance"},
        miles_router_timeout=600.0,
        pause_generation_mode=None,
        use_rollout_routing_replay=False,
        use_rollout_indexer_replay=False,
        save_debug_trajectory_data=None,
        sglang_speculative_algorithm=None,
        sglang_server_concurrency=64,
        rollout_num_gpus=1,
        rollout_num_gpus_per_engine=1,
        eval_num_gpus=0,
        use_distributed_post=False,
        max_seq_len=None,
        custom_agent_function_path="osmosis_agent.run",
    )


async def main():
    stand_ins()
    folder = tempfile.mkdtemp()
    tokenizer = tokenizer_in(folder)
    sys.path.insert(0, str(harness.ROOT / "examples/trainers/miles"))

    def sglang(body, number):
        answer = policy.completion(body, number)
        choice = answer["choices"][0]
        said = tokenizer.encode(choice["message"]["content"] + policy.END)
        meta = {"output_token_logprobs": [[policy.LOGPROB, token, None] for token in said]}
        choice["meta_info"] = {**meta, "completion_tokens": len(said), "prompt_tokens": 0, "cached_tokens": 0}
        return answer

    args = arguments(folder, harness.free_port())
    start_session_server(args, policy.serve_policy(sglang).removesuffix("/v1"))
    port = harness.free_port()
    url = f"http://127.0.0.1:{port}"
    server = harness.osmosis("serve", "--run", "--port", str(port), "--log-level", "error")
    os.environ["OSMOSIS_SERVER"] = url

    from miles.rollout.base_types import GenerateFnInput
    from miles.rollout.generate_hub import agentic_tool_call
    from miles.utils.http_utils import init_http_client
    from miles.utils.types import Sample
    import osmosis_rewards

    init_http_client(args)
    data = harness.rows(16)
    try:
        await asyncio.to_thread(harness.wait_for, f"{url}/health")

        async def run(index, row):
            prompt = [{"role": "user", "content": row["question"]}]
            sample = Sample(index=index, prompt=prompt, metadata=row)
            state = types.SimpleNamespace(args=args)
            settings = {"temperature": 1.0, "max_new_tokens": 64}
            given = GenerateFnInput(state=state, sample=sample, sampling_params=settings, evaluation=False)
            return row, (await agentic_tool_call.generate(given)).samples

        ends = await asyncio.gather(*(run(index, row) for index, row in enumerate(data)))
    finally:
        code = harness.end(server)

    def is_right(row, sample):
        prompt, response, mask = policy.expected(row["question"])
        tokens = tokenizer.encode(bytes(prompt + response).decode())
        logprobs = [policy.LOGPROB * said for said in mask]
        return (sample.tokens, sample.loss_mask, sample.rollout_log_probs) == (tokens, mask, logprobs)

    rewards = await asyncio.gather(*(osmosis_rewards.reward(args, sample) for _, sample in ends))
    completed = [osmosis_rewards.keep_completed(args, [sample]) for _, sample in ends]
    rewarded = [row["want"] == "rewarded" for row in data]
    return harness.verdict(
        {
            "tokens, mask and logprobs of each rewarded rollout are those of its row": all(
                is_right(row, sample) for (row, sample), wanted in zip(ends, rewarded) if wanted
            ),
            "its reward is that of its row": all(
                reward == float(row["answer"]) for row, reward, wanted in zip(data, rewards, rewarded) if wanted
            ),
            "the filter passes exactly the rewarded rollouts": completed == rewarded,
            "what it drops would have been trained as 0": all(
                reward == 0 for reward, wanted in zip(rewards, rewarded) if not wanted
            ),
            "the server ended cleanly": code == 0,
        }
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
