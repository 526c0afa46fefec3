"""The rollout loop of TRL 1.16 without training: it is built, called and read in the same way."""

import asyncio
import math
import pickle
import queue
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass
class TrainingSequence:
    input_ids: list
    completion_mask: list
    old_log_probs: list
    rollout_id: str


@dataclass
class RolloutSample:
    prompt: list
    input_ids: list
    completion_mask: list
    old_log_probs: list
    advantage: float
    group_id: int
    metrics: dict


# The default settings of a loop.
DEFAULTS = {
    "num_generations": 8,
    "max_inflight_tasks": 128,
    "queue_maxsize": 0,
    "vllm_server_url": "http://localhost:8000",
    "max_tokens": 32,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "log_completions": False,
    "num_completions_to_print": None,
}


class _AsyncRolloutLoop:
    _provides_rollout_reward = False

    def __init__(
        self, *, model_name, dataset, reward_funcs, processing_class, eos_token_ids, rollout_buffer, **settings
    ):
        if unknown := settings.keys() - DEFAULTS.keys():
            raise TypeError(f"no setting of the loop: {unknown}")
        if not reward_funcs and not self._provides_rollout_reward:
            raise ValueError("no reward source")
        self.model_name, self.dataset, self.tokenizer = model_name, dataset, processing_class
        self.rollout_buffer = rollout_buffer
        for name, value in {**DEFAULTS, **settings}.items():
            setattr(self, name, value)
        self.tools = []
        self.reward_func_names = [function.__name__ for function in reward_funcs]

    async def _generate_one(self, prompt, tool_dict, tools, group_id=0):
        raise AssertionError("the tool loop of TRL itself")

    def run(self):
        """One pass over the dataset; the loop of TRL continues until it is stopped."""
        asyncio.run(self._passed())

    async def _passed(self):
        slots = asyncio.Semaphore(self.max_inflight_tasks)

        async def attempt(prompt, group_id):
            async with slots:
                return await self._generate_one(prompt, tool_dict={}, tools=self.tools, group_id=group_id)

        async def group_of(group_id, row):
            # An exception of one attempt ends the loop, and with it the training.
            ended = await asyncio.gather(*(attempt(row["prompt"], group_id) for _ in range(self.num_generations)))
            for sample in self._scored(row["prompt"], group_id, ended):
                self.rollout_buffer.put_nowait(sample)

        await asyncio.gather(*(group_of(group_id, row) for group_id, row in enumerate(self.dataset)))

    def _scored(self, prompt, group_id, ended):
        if len(self.reward_func_names) != 1:
            raise ValueError("each source of rewards has a name")
        rewards = [math.nan if reward is None else reward for *_, reward in ended]
        scored = [reward for reward in rewards if not math.isnan(reward)]
        for (completion, completion_ids, sequences, calls, failures, _), reward in zip(ended, rewards, strict=True):
            assert (calls, failures) == (0, 0)
            assert all(set(message) == {"role", "content"} for message in completion)
            assert len(completion_ids) == sum(sum(one.completion_mask) for one in sequences)
            advantage = 0.0 if math.isnan(reward) else (reward - fmean(scored)) / (pstdev(scored) + 1e-8)
            for one in sequences:
                yield RolloutSample(
                    prompt=prompt,
                    input_ids=one.input_ids,
                    completion_mask=one.completion_mask,
                    old_log_probs=one.old_log_probs,
                    advantage=advantage,
                    group_id=group_id,
                    metrics={"reward": reward, f"rewards/{self.reward_func_names[0]}": reward},
                )


class AsyncRolloutWorker:
    """TRL runs the loop in a child process, which gets the class by its name and everything else pickled."""

    _loop_cls = _AsyncRolloutLoop

    def __init__(self, *, queue_maxsize=0, **loop_kwargs):
        self.rollout_buffer = queue.Queue(queue_maxsize)
        self._loop_kwargs = {**loop_kwargs, "queue_maxsize": queue_maxsize}

    def start(self):
        loop, settings = pickle.loads(pickle.dumps((self._loop_cls, self._loop_kwargs)))
        loop(**settings, rollout_buffer=self.rollout_buffer).run()
