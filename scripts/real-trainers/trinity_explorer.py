"""The application that Trinity's explorer serves, and its recorder, against `osmosis worker --trinity`.

    python trinity_explorer.py <checkout of agentscope-ai/Trinity-RFT>

Real: trinity.explorer.proxy.{app,service,recorder} and trinity.common.experience. Stand-ins: the explorer with its engines and its
pipeline (one address, and a list of what was committed), and the packages' __init__ files, which load vLLM.
"""

import asyncio
import json
import logging
import pathlib
import sys
import tempfile
import threading
import types

import policy

ATTEMPTS, GROUPS = 4, 8


class Model:
    """One engine: what ModelWrapper makes of it is not needed."""

    model_version, request_count = 0, 0

    def __init__(self, address):
        self.api_address = address

    async def prepare(self):
        pass

    @property
    async def model_version_async(self):
        return self.model_version


class Pipeline:
    def __init__(self):
        self.commits = []
        self.process = types.SimpleNamespace(remote=self.take)

    async def take(self, experiences):
        from trinity.common.experience import Experience

        is_packed = isinstance(experiences, bytes)
        self.commits.append(Experience.deserialize_many(experiences) if is_packed else experiences)
        return {}


def stand_ins(checkout):
    def module(name, **members):
        made = types.ModuleType(name)
        made.__dict__.update(members)
        folder = checkout / name.replace(".", "/")
        if folder.is_dir():
            made.__path__ = [str(folder)]
        sys.modules[name] = made

    for name in ("trinity", "trinity.common", "trinity.common.models", "trinity.explorer", "trinity.buffer"):
        module(name)
    module("trinity.explorer.proxy")
    module("trinity.utils")
    module("trinity.utils.log", get_logger=lambda *_, **__: logging.getLogger("trinity"))
    module("trinity.common.models.model", ModelWrapper=lambda model: model)
    module("trinity.explorer.explorer", Explorer=object)
    # The recorder that writes to a database uses these; the one here keeps what it has in memory.
    for name in ("trinity.buffer.schema", "trinity.buffer.schema.sql_schema", "trinity.buffer.utils"):
        module(name, __getattr__=lambda _: None)


def start_explorer(address, port):
    from trinity.explorer.proxy import recorder

    recorder.HistoryRecorder = lambda **_: recorder.MemoryHistoryRecorder()
    from trinity.explorer.proxy.service import ExplorerService

    pipeline = Pipeline()
    explorer = types.SimpleNamespace(
        models=[Model(address)],
        experience_pipeline=pipeline,
        monitor=types.SimpleNamespace(log=lambda *_: None),
        explore_step_num=0,
        config=types.SimpleNamespace(
            explorer=types.SimpleNamespace(
                min_running_model_num=1, service_status_check_interval=60, max_timeout=60, db_url="sqlite://"
            ),
            model=types.SimpleNamespace(temperature=1.0),
            buffer=types.SimpleNamespace(cache_dir=tempfile.mkdtemp()),
            synchronizer=types.SimpleNamespace(sync_timeout=60),
        ),
    )

    async def serve():
        service = ExplorerService(explorer, listen_address="127.0.0.1", port=port)
        await service.serve()
        await service.serve_task

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    return pipeline


def main():
    stand_ins(pathlib.Path(sys.argv[1]).resolve())
    port, data = policy.free_port(), policy.rows(16)
    url = f"http://127.0.0.1:{port}"
    names = {"data": [{"id": policy.MODEL}]}
    pipeline = start_explorer(policy.serve_policy(models=names).removesuffix("/v1"), port)
    policy.wait_for(f"{url}/health")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as file:
        for row in data:
            line = {"user_prompt": row["question"], "ground_truth": row["answer"], "metadata": {"want": row["want"]}}
            file.write(json.dumps(line) + "\n")
    numbers = ("--attempts", str(ATTEMPTS), "--groups-per-commit", str(GROUPS))
    worker = policy.osmosis("worker", "--trinity", url, "--dataset", file.name, *numbers)
    code = worker.wait(120)

    trained = [experience for commit in pipeline.commits for experience in commit]
    wanted = [row for row in data if row["want"] == "rewarded"]
    by_row = {}
    for experience in trained:
        by_row.setdefault(int(str(experience.eid.task).rsplit("-", 1)[1]), []).append(experience)

    def group_is_right(number):
        prompt, response, mask = policy.expected(data[number]["question"])
        whole = prompt + response
        said = {tuple(whole), tuple(whole[: len(prompt) + mask.index(0)])}
        group = by_row[number]
        return (
            {tuple(experience.tokens.tolist()) for experience in group} == said
            and all(abs(experience.reward - float(data[number]["answer"])) < 1e-6 for experience in group)
            and all(set(experience.logprobs.tolist()) == {policy.LOGPROB} for experience in group)
            and len({experience.eid.run for experience in group}) == ATTEMPTS
        )

    return policy.verdict(
        {
            "each call of a rewarded rollout was committed, once": len(trained) == len(wanted) * ATTEMPTS * 2,
            "and nothing of any other": set(by_row) == {data.index(row) for row in wanted},
            "with its ids, logprobs, reward, group and attempt": all(group_is_right(number) for number in by_row),
            "one commit for each batch": len(pipeline.commits) == len(data) // GROUPS,
            "the worker ended cleanly": code == 0,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
