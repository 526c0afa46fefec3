"""Runs the workflow as Trinity's runner does: an instance for each attempt, and an exception is a failed one."""

import asyncio
import json
import sys
import os
from types import SimpleNamespace

os.environ["OSMOSIS_SERVER"] = sys.argv[1]
from stand_in import completion, serve
from trinity_workflow import OsmosisWorkflow

asked = []


def model_server(path, headers, body):
    assert path == "/v1/chat/completions", path
    asked.append({name: body.get(name) for name in ("model", "temperature", "top_p", "max_tokens")})
    return 200, completion(body["messages"])


model = SimpleNamespace(api_address=serve(model_server), model_name="policy")
settings = SimpleNamespace(temperature=1.0, top_p=0.5, top_k=-1, max_tokens=7, n=2)


async def attempt(row, run):
    workflow = OsmosisWorkflow(task=SimpleNamespace(raw_task=row, rollout_args=settings), model=model)
    assert workflow.is_async
    try:
        experiences = await workflow.run_async()
    except Exception as error:
        return {"error": str(error)}
    for experience in experiences:
        experience.eid.run = run
    return {"experiences": [experience.to_dict() for experience in experiences]}


async def main():
    rows = json.loads(sys.argv[2])
    runs = [attempt(row, run) for row in rows for run in range(row.get("attempts", 2))]
    print(json.dumps({"runs": await asyncio.gather(*runs), "asked": asked}))


asyncio.run(main())
