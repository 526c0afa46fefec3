"""Calls the generate function as slime does, and its filter with each group."""

import asyncio
import enum
import json
import os
import sys
from types import SimpleNamespace

os.environ["OSMOSIS_SERVER"] = sys.argv[1]
import slime_generate


class Sample(SimpleNamespace):
    Status = enum.Enum("Status", ["PENDING", "COMPLETED", "FAILED"])


args = SimpleNamespace(hf_checkpoint="", sglang_router_ip="router", sglang_router_port=30000)


async def group_of(row):
    prompt = [{"role": "user", "content": row["prompt"]}]
    made = [Sample(prompt=prompt, label=row["label"], metadata={"id": row["id"]}) for _ in range(row.get("attempts", 2))]
    return await asyncio.gather(*(slime_generate.generate(args, one, {"max_new_tokens": 7}) for one in made))


async def main():
    groups = [await group_of(row) for row in json.loads(sys.argv[2])]
    flat = [[one for made in group for one in (made if isinstance(made, list) else [made])] for group in groups]
    shown = ("reward", "metadata", "tokens")
    print(json.dumps({
        "completed": [slime_generate.keep_completed(args, group) for group in groups],
        "samples": [[{**{n: getattr(s, n) for n in shown}, "status": s.status.name} for s in g] for g in flat],
    }))


asyncio.run(main())
