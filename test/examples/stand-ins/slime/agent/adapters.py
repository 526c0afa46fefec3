import copy

from stand_in import completion


class OpenAIAdapter:
    def __init__(self, *, tokenizer, sglang_url, tool_parser, reasoning_parser, fork_threshold_tokens):
        assert sglang_url == "http://router:30000"
        # Anything else trains no token of an answer that comes back changed.
        assert fork_threshold_tokens == 0
        self.sessions = {}
        self.app = self.turn

    def turn(self, path, headers, body):
        assert path == "/v1/chat/completions", path
        session = self.sessions[headers["authorization"].removeprefix("Bearer ")]
        assert body["max_tokens"] == session["max_new_tokens"]
        answer = completion(body["messages"])
        session["calls"].append(answer)
        return 200, {key: value for key, value in answer.items() if key != "prompt_token_ids"}

    def open_session(self, sid, *, sampling_defaults):
        assert sid not in self.sessions
        self.sessions[sid] = {**sampling_defaults, "calls": []}

    async def finish_session(self, sid, *, base_sample, reward, extra_metadata):
        calls = self.sessions.pop(sid)["calls"]
        if not calls:
            return []
        sample = copy.copy(base_sample)
        last = calls[-1]
        sample.tokens = last["prompt_token_ids"] + last["choices"][0]["token_ids"]
        sample.reward, sample.metadata = reward, {**base_sample.metadata, **extra_metadata}
        sample.status = type(sample).Status.COMPLETED
        return [sample]
