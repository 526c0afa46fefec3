import os

from verifiers.v1.harness import Harness
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.runtimes import ProgramResult

from osmosis_run import run_async

__all__ = ["OsmosisHarness"]


class OsmosisHarness(Harness[HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        answer = await run_async(
            os.environ["OSMOSIS_SERVER"],
            data.model_dump(mode="json", exclude_none=True),
            base_url=endpoint,
            model=ctx.model,
            api_key=os.environ.get("OSMOSIS_KEY"),
            policy_key=secret,
        )
        trace.info["osmosis"] = answer
        failed = answer["exit_status"] != "completed"
        return ProgramResult(exit_code=int(failed), stdout="", stderr=str(answer["eval_report"]))


async def osmosis_reward(trace):
    return trace.info["osmosis"]["reward"]
