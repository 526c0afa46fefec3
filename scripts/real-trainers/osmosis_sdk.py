"""The Osmosis SDK for Python, in both directions.

    python osmosis_sdk.py
    python osmosis_sdk.py serve PORT    (its rollout server alone)

Real, from the package `osmosis-ai`: RolloutClient, which sends rollouts to `osmosis serve`; create_rollout_server, LocalBackend,
AgentWorkflow and Grader, to which our controller sends the same rows (osmosis_controller.ts). Nothing is replaced.
"""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version

import httpx
import uvicorn
from osmosis_ai.rollout import AgentWorkflow, AgentWorkflowConfig, Grader, LocalBackend, get_rollout_context
from osmosis_ai.rollout.client import RolloutClient
from osmosis_ai.rollout.server import create_rollout_server

import harness
import policy

KEY = "the-key"


class AsksTwice(AgentWorkflow):
    """The agent of rollout.ts."""

    async def run(self, ctx):
        rollout, messages = get_rollout_context(), list(ctx.prompt)
        headers = {"authorization": f"Bearer {rollout.api_key}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            for question in ([], [{"role": "user", "content": "Are you sure?"}]):
                messages += question
                body = {"model": policy.MODEL, "messages": messages}
                answer = await client.post(f"{rollout.chat_completions_url}/chat/completions", json=body)
                messages.append(answer.raise_for_status().json()["choices"][0]["message"])
        if ctx.metadata["want"] == "hangs":
            await asyncio.Event().wait()
        if ctx.metadata["want"] == "failed":
            raise RuntimeError("the row wants a failure")
        return messages


class SaysTheLabel(Grader):
    async def grade(self, ctx):
        ctx.sample.remove_sample = ctx.metadata["want"] == "removed"
        ctx.set_reward(float(ctx.label))


def serve(port):
    config = AgentWorkflowConfig(name="asks-twice", concurrency={"max_concurrent": 16})
    backend = LocalBackend(workflow=AsksTwice, workflow_config=config, grader=SaysTheLabel)
    logging.disable()
    app = create_rollout_server(backend=backend, api_key=KEY, configure_logging=False, result_wait_timeout_sec=1)
    uvicorn.run(app, port=port, log_level="warning")


async def client_on_our_server(data):
    """How each rollout ended, as their client read it."""
    port, model = harness.free_port(), policy.serve_policy()
    url = f"http://127.0.0.1:{port}"
    server = harness.osmosis("serve", "--port", str(port), "--log-level", "error", OSMOSIS_ROLLOUT_SERVER_API_KEY=KEY)
    client = RolloutClient(url=url, api_key=KEY)

    async def run(number, row):
        prompt = [{"role": "user", "content": row["question"]}]
        limits = {"agent_timeout_sec": 60, "grader_timeout_sec": 60}
        metadata = {"want": row["want"]}
        result = await client.run_rollout(prompt, model, f"rollout-{number}", "any", row["answer"], metadata, **limits)
        sample = result.sample and {"reward": result.sample.reward, "removed": result.sample.remove_sample}
        roles = [message["role"] for message in result.sample.messages] if result.sample else []
        return {"status": result.status, "error": result.err_message, "roles": roles, **(sample or {})}

    try:
        await asyncio.to_thread(harness.wait_for, f"{url}/health")
        ends = await asyncio.gather(*(run(number, row) for number, row in enumerate(data)))
        idle = (await client.wait_idle(timeout_sec=10))["lifecycle"]["active_rollouts"] == 0
    finally:
        await client.aclose()
        code = harness.end(server)
    return ends, idle and code == 0


def our_controller(data):
    """How each rollout on their server ended, as our controller read it; the last row hangs, and is cancelled."""
    port = harness.free_port()
    folder = {"_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": tempfile.mkdtemp(prefix="osmosis-sdk-")}
    server = subprocess.Popen([sys.executable, __file__, "serve", str(port)], env={**os.environ, **folder})
    try:
        program = harness.ROOT / "scripts/real-trainers/osmosis_controller.ts"
        sent = json.dumps([*data, {**data[0], "want": "hangs"}])
        done = subprocess.run(["node", program, f"http://127.0.0.1:{port}", KEY], input=sent, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        code = harness.end(server)
    *ends, cancelled = json.loads(done.stdout)
    return ends, cancelled == {"cancelled": True} and code in (0, -signal.SIGTERM)


def checks(side, data, ends):
    def those(want):
        return [(row, end) for row, end in zip(data, ends, strict=True) if row["want"] == want]

    return {
        f"{side}: each rewarded rollout has the reward of its row, and its conversation": all(
            (end["status"], end["reward"], end["roles"]) == ("success", float(row["answer"]), ["user", "assistant"] * 2)
            for row, end in those("rewarded")
        ),
        f"{side}: a failure has no reward, and says why": all(
            end["status"] == "failure" and end.get("reward") is None and "wants a failure" in end["error"]
            for _, end in those("failed")
        ),
        f"{side}: a removed sample is marked, and has no reward": all(
            end["removed"] and end["reward"] is None for _, end in those("removed")
        ),
    }


def main():
    data = harness.rows(32)
    print(f"osmosis-ai {version('osmosis-ai')}: {len(data)} rows")
    ends, ours = asyncio.run(client_on_our_server(data))
    driven, theirs = our_controller(data)
    return harness.verdict(
        {
            **checks("its client on our server", data, ends),
            "our server was idle, and ended cleanly": ours,
            **checks("our controller on its server", data, driven),
            "a cancelled rollout of its server is over, and it ended cleanly": theirs,
        }
    )


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[2])) if sys.argv[1:2] == ["serve"] else main())
