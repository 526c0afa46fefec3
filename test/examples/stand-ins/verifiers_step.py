"""Launches the harness as verifiers does, against an endpoint that records and asks for its secret."""

import asyncio
import json
import os
import sys
from types import SimpleNamespace

os.environ["OSMOSIS_SERVER"] = sys.argv[1]
from osmosis_harness import HarnessConfig, OsmosisHarness, osmosis_reward
from stand_in import completion, serve


class Data:
    def __init__(self, row):
        self.row = row

    def model_dump(self, mode, exclude_none):
        return self.row


async def rollout(row):
    calls = []

    def endpoint(path, headers, body):
        if headers["authorization"] != "Bearer secret":
            return 401, {}
        calls.append(completion(body["messages"]))
        return 200, calls[-1]

    trace = SimpleNamespace(info={})
    harness = OsmosisHarness(HarnessConfig())
    ctx = SimpleNamespace(model="policy")
    result = await harness.launch(ctx, trace, None, serve(endpoint) + "/v1", "secret", {}, Data(row))
    outcome = {"exit_code": result.exit_code, "calls": len(calls)}
    return {**outcome, "reward": await osmosis_reward(trace)} if result.exit_code == 0 else outcome


async def main():
    rows = [row for row in json.loads(sys.argv[2]) for _ in range(row.get("attempts", 1))]
    return await asyncio.gather(*map(rollout, rows))


print(json.dumps(asyncio.run(main())))
