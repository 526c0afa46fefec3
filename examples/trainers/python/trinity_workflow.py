import os

from trinity.common.experience import EID, Experience
from trinity.common.workflows import Workflow

from osmosis_run import run_async, sequences


class OsmosisWorkflow(Workflow):
    is_async = True

    async def run_async(self):
        settings = self.task.rollout_args
        answer = await run_async(
            os.environ["OSMOSIS_SERVER"],
            self.task.raw_task,
            base_url=f"{self.model.api_address}/v1",
            model=self.model.model_name,
            sampling_params={name: getattr(settings, name) for name in ("temperature", "top_p", "top_k", "max_tokens")},
            trace=True,
            api_key=os.environ.get("OSMOSIS_KEY"),
        )
        if answer["exit_status"] != "completed":
            raise RuntimeError(f"rollout {answer['exit_status']}: {answer['eval_report'].get('err_message')}")
        return [
            Experience(
                eid=EID(step=step),
                tokens=one["prompt_ids"] + one["completion_ids"],
                prompt_length=len(one["prompt_ids"]),
                logprobs=one["logprobs"],
                action_mask=[bool(flag) for flag in one["mask"]],
                reward=answer["reward"],
                metrics={"osmosis/reward": answer["reward"]},
            )
            for step, one in enumerate(sequences(answer))
        ]
