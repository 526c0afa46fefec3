from dataclasses import asdict, dataclass, field


@dataclass
class EID:
    run: int = 0
    step: int = 0


class Experience:
    def __init__(self, *, eid, tokens, prompt_length, logprobs, action_mask, reward, metrics):
        assert prompt_length + len(action_mask) == len(tokens) and len(logprobs) == len(action_mask)
        self.eid, self.prompt_length, self.reward, self.metrics = eid, prompt_length, reward, metrics
        self.tokens, self.logprobs, self.action_mask = tokens, logprobs, action_mask

    def to_dict(self):
        return {**vars(self), "eid": asdict(self.eid)}
