"""Agent Lightning's own gateway, rollout manager and adapter against `osmosis worker`.

    python agent_lightning.py

Real: agentlightning.server (gateway), AglRolloutManager (what makes rollouts and reads what was recorded), RolloutAdapter (rows of
training), of the package `agentlightning`. Stand-in, where it is not installed: verl.DataProto, a container.
"""

import importlib.util
import sys
import threading
import time
import types
from importlib.metadata import version

import harness
import policy

KEY = "the-key"


class DataProto:
    def __init__(self, batch=None):
        self.batch, self.non_tensor_batch = batch, {}


def stand_in():
    if importlib.util.find_spec("verl") is None:
        sys.modules["verl"] = types.ModuleType("verl")
        sys.modules["verl"].DataProto = DataProto


def start_gateway(port):
    import uvicorn
    from agentlightning.server.app import create_app

    temperatures = {"train": {"temperature": 1}, "val": {"temperature": 0.7}}
    proxy = {"model_name": policy.MODEL, "include_log_probs": True, **temperatures}
    app = create_app({"key": KEY, "default_proxy": proxy})
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError(f"The gateway did not start on port {port}: its log says why.")
        time.sleep(0.05)


def main():
    stand_in()
    import torch
    from agentlightning.verl.agl_rollout_manager import AglRolloutManager
    from agentlightning.verl.rollout_adapter import RolloutAdapter

    port, attempts, data = harness.free_port(), 4, harness.rows(32)
    url = f"http://127.0.0.1:{port}"
    start_gateway(port)
    manager = AglRolloutManager(agl_base_url=url, agl_key=KEY, model=policy.MODEL, step=1, train_rollout_n=attempts)
    manager.register_model([policy.serve_policy()])
    worker = harness.osmosis("worker", "--agent-lightning", url, OSMOSIS_TRAINER_KEY=KEY)
    try:
        columns = {name: [row[name] for row in data] for name in data[0]}
        done = manager.enqueue_and_wait_until_completed(columns, is_train=True)
    finally:
        code = harness.end(worker)

    sizes = {"max_prompt_length": 512, "max_response_length": 512, "pad_token_id": 0}
    adapter = RolloutAdapter(device=torch.device("cpu"), trace_aggregator_level="trajectory", **sizes)
    batch, figures = adapter.get_train_data_batch(done)

    wanted = [rollout for rollout in done if rollout.input["want"] == "rewarded"]
    by_id = {rollout.rollout_id: rollout.input for rollout in done}
    trained = list(batch.non_tensor_batch["rollout_id_list"])
    rewards = batch.batch["token_level_scores"].float().sum(-1).tolist()

    def row_is_right(index):
        row = by_id[trained[index]]
        prompt, response, mask = policy.expected(row["question"])
        seen = {name: batch.batch[name][index].tolist() for name in ("prompts", "responses", "response_mask")}
        logprobs = batch.batch["rollout_log_probs"][index].tolist()[: len(mask)]
        return (
            seen["prompts"][-len(prompt) :] == prompt
            and seen["responses"][: len(response)] == response
            and seen["response_mask"][: len(mask)] == mask
            and logprobs == [policy.LOGPROB * said for said in mask]
            and abs(rewards[index] - float(row["answer"])) < 0.02  # bfloat16
        )

    print(f"agentlightning {version('agentlightning')}")
    return harness.verdict(
        {
            f"{len(done)} rollouts ended": len(done) == len(data) * attempts,
            "each rewarded one is a row of training, and no other": sorted(trained)
            == sorted(rollout.rollout_id for rollout in wanted),
            "ids, mask, logprobs and reward of each row are those of its rollout": all(
                row_is_right(index) for index in range(len(trained))
            ),
            "no reward was filled in for what is trained": all(
                rollout.final_reward is not None for rollout in wanted
            ),
            "no turn was left unmerged": figures["training/n_unmerged_rollouts"] == 0,
            "the worker ended cleanly": code == 0,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
