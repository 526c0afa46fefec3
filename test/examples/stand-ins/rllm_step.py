"""Runs the flow as rLLM's engine does: a session at its gateway each, deleted before it is run again."""

import json
import sys
from types import SimpleNamespace

from rllm_flow import OsmosisFlow
from stand_in import completion, serve

sessions = {}


def gateway(path, headers, body):
    _, _, session, rest = path.split("/", 3)
    assert rest == "v1/chat/completions", path
    sessions.setdefault(session, []).append(completion(body["messages"]))
    return 200, sessions[session][-1]


url = serve(gateway)
flow = OsmosisFlow(sys.argv[1])
outcomes = []
for row in json.loads(sys.argv[2]):
    task = SimpleNamespace(id=row["id"], metadata=row)
    for attempt in range(3):
        sessions.pop(row["id"], None)
        try:
            config = SimpleNamespace(base_url=f"{url}/sessions/{row['id']}/v1", model="policy")
            episode = flow.run(task, config)
        except Exception as error:
            outcomes.append({"id": row["id"], "error": str(error)})
            continue
        (trajectory,) = episode.trajectories
        outcomes.append({"id": row["id"], "reward": trajectory.reward, "traces": len(sessions[row["id"]])})
        break
print(json.dumps(outcomes))
