import os
from urllib.parse import urlsplit

import httpx

SERVER = os.environ["OSMOSIS_SERVER"]
KEY = os.environ.get("OSMOSIS_KEY")
HEADERS = {"authorization": f"Bearer {KEY}"} if KEY else {}


async def ask(path, body, timeout):
    async with httpx.AsyncClient(timeout=timeout) as client:
        answer = await client.post(f"{SERVER}{path}", json=body, headers=HEADERS)
        answer.raise_for_status()
        return answer.json()


def seen_from_the_server(base_url):
    host = os.environ.get("SESSION_HOST")
    return base_url if not host else base_url.replace(urlsplit(base_url).hostname, host, 1)


async def run(base_url, prompt, request_kwargs=None, metadata=None, **kwargs):
    body = {
        **(metadata or {}),
        "base_url": f"{seen_from_the_server(base_url)}/v1",
        "model": "policy",
        "sampling_params": request_kwargs or {},
    }
    return await ask("/run", body, None)


async def abort(args):
    instances = getattr(args, "session_server_instance_ids", None) or {}
    for instance in instances.values():
        await ask("/flush", {"session_server_instance_id": instance}, 30)
