"""The Osmosis SDK for Python as the caller, against `osmosis serve`.

    python osmosis_driver.py <checkout of Osmosis-AI/osmosis-sdk-python>

Real: HttpRolloutDriver (sends rollouts), CallbackStore and CallbackListener (take their results). Stand-in: the
package's __init__, which loads its agents.
"""

import asyncio
import sys
import types

sys.path.insert(0, sys.argv[1])

import policy

KEY = "the-key"


async def committed(*_, **__):
    """Where a trainer would keep what came."""


async def main():
    import osmosis_ai

    package = types.ModuleType("osmosis_ai.rollout")
    package.__path__ = [f"{osmosis_ai.__path__[0]}/rollout"]
    sys.modules["osmosis_ai.rollout"] = package

    import httpx
    from osmosis_ai.rollout.controller.listener import CallbackListener
    from osmosis_ai.rollout.controller.store import CallbackStore
    from osmosis_ai.rollout.driver import RolloutRunRequest
    from osmosis_ai.rollout.http_driver import HttpRolloutDriver

    port, model = policy.free_port(), policy.serve_policy()
    url = f"http://127.0.0.1:{port}"
    server = policy.osmosis("serve", "--port", str(port), "--log-level", "error", OSMOSIS_ROLLOUT_SERVER_API_KEY=KEY)
    data = policy.rows(32)
    try:
        await asyncio.to_thread(policy.wait_for, f"{url}/health")
        store = CallbackStore(on_terminal_commit=committed)
        headers = {"authorization": f"Bearer {KEY}"}
        async with CallbackListener(store, auth_token=KEY) as listener, httpx.AsyncClient(headers=headers) as client:
            driver = HttpRolloutDriver(
                rollout_base_url=url,
                callback_store=store,
                completion_url_for=listener.completion_url,
                grader_url_for=listener.grader_url,
                chat_completions_url_for=lambda _: model,
                chat_api_key=None,
                controller_api_key=KEY,
                http_client=client,
                callback_timeout_sec=60,
            )

            async def run(number, row):
                request = RolloutRunRequest(
                    messages=[{"role": "user", "content": row["question"]}],
                    label=row["answer"],
                    metadata={"want": row["want"]},
                    rollout_id=f"rollout-{number}",
                    agent_timeout_sec=60,
                    grader_timeout_sec=60,
                )
                return row, await driver.run(request)

            ends = await asyncio.gather(*(run(number, row) for number, row in enumerate(data)))
    finally:
        code = policy.end(server)

    def those(want):
        return [(row, end) for row, end in ends if row["want"] == want]

    return policy.verdict(
        {
            f"{len(ends)} rollouts ended": len(ends) == len(data),
            "each rewarded one has the reward of its row": all(
                end.status == "success" and end.sample.reward == float(row["answer"]) for row, end in those("rewarded")
            ),
            "and its conversation": all(
                [message["role"] for message in end.sample.messages] == ["user", "assistant"] * 2
                and end.sample.messages[0]["content"] == row["question"]
                for row, end in those("rewarded")
            ),
            "a failure has no reward, and says why": all(
                end.status == "failure"
                and (end.sample is None or end.sample.reward is None)
                and "wants a failure" in end.error
                for _, end in those("failed")
            ),
            "a removed sample is marked": all(
                end.sample is not None and end.sample.remove_sample for _, end in those("removed")
            ),
            "the server ended cleanly": code == 0,
        }
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
