from rllm.types import Episode, Trajectory

from osmosis_run import run


class OsmosisFlow:
    """An AgentFlow: give it to the trainer as agent_flow."""

    def __init__(self, server, api_key=None):
        self.server = server
        self.api_key = api_key

    def run(self, task, config):
        answer = run(
            self.server, task.metadata, base_url=config.base_url, model=config.model, api_key=self.api_key
        )
        if answer["exit_status"] != "completed":
            raise RuntimeError(f"rollout {answer['exit_status']}: {answer['eval_report'].get('err_message')}")
        reward = answer["reward"]
        return Episode(trajectories=[Trajectory(name="osmosis", reward=reward)], is_correct=reward > 0)
