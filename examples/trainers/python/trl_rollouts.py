"""Checked with TRL 1.13.0 and 1.16.0."""

import json
import logging
import urllib.error
import uuid
from asyncio import sleep
from http.client import HTTPException
from importlib.metadata import version
from inspect import signature

from osmosis_run import run_async, sequences, trained_calls

try:
    from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker, TrainingSequence, _AsyncRolloutLoop
except ImportError as error:
    wanted = "trl_rollouts.py needs the rollout loop of TRL 1.13 to 1.16, which TRL 1.18 moved and changed"
    raise ImportError(f"{wanted}. TRL {version('trl')} is installed: install trl==1.16.0") from error

logger = logging.getLogger(__name__)


def key(prompt):
    """The same text for a prompt of the file and for what the dataset made of it."""
    said = [{name: value for name, value in message.items() if value is not None} for message in prompt]
    return json.dumps(said, sort_keys=True)


def rows_by_prompt(rows):
    found = {}
    for row in rows:
        if found.setdefault(key(row["prompt"]), row) != row:
            raise ValueError(f"two different rows have this prompt, and TRL gives the prompt alone: {row['prompt']}")
    return found


class OsmosisLoop(_AsyncRolloutLoop):
    """Attempts are rollouts of an agent. Runs in the process that TRL starts."""

    # The last value that _generate_one returns is a reward.
    _provides_rollout_reward = True

    def __init__(self, *, server, rows, api_key=None, tries=3, token_budget=0, **settings):
        # Since TRL 1.15, for figures of TRL's own attempts.
        if "eos_token_ids" in signature(_AsyncRolloutLoop).parameters:
            settings["eos_token_ids"] = []
        super().__init__(**settings)
        self.reward_func_names.append("osmosis")
        self.server, self.rows, self.api_key, self.tries = server, rows_by_prompt(rows), api_key, tries
        self.token_budget = token_budget
        self.ended = self.refused = 0

    async def _generate_one(self, prompt, *_, **__):
        row = self.rows[key(prompt)]
        for _ in range(self.tries):
            answer = await self.answer_to(row)
            if answer["exit_status"] == "completed":
                return self.attempt_of(answer)
            why = answer["eval_report"].get("err_message", "no sample remained")
            logger.warning("rollout %s: %s", answer["exit_status"], why)
        return self.refuse(f"none of {self.tries} tries was completed")

    def refuse(self, why):
        """No sequence and no reward: nothing is trained, and the mean of the group is that of the others."""
        self.ended += 1
        self.refused += 1
        logger.warning("rollout refused, %d of %d so far: %s", self.refused, self.ended, why)
        return [], [], [], 0, 0, None

    async def answer_to(self, row):
        sampling = {name: getattr(self, name) for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens")}
        sampling["repetition_penalty"] = self.repetition_penalty
        for pause in (1, 5, 15, 60, None):
            try:
                return await run_async(
                    self.server,
                    row,
                    base_url=f"{self.vllm_server_url}/v1",
                    model=self.model_name,
                    sampling_params=sampling,
                    trace=True,
                    api_key=self.api_key,
                )
            except (OSError, HTTPException) as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.code not in (429, 503)
                if refused or pause is None:
                    raise
                logger.warning("%s cannot be asked, again in %d s: %s", self.server, pause, error)
            await sleep(pause)

    def attempt_of(self, answer):
        attempt = uuid.uuid4().hex
        found = [
            TrainingSequence(
                input_ids=one["prompt_ids"] + one["completion_ids"],
                completion_mask=[0] * len(one["prompt_ids"]) + one["mask"],
                old_log_probs=[0.0] * len(one["prompt_ids"]) + one["logprobs"],
                rollout_id=attempt,
            )
            for one in sequences(answer)
        ]
        sizes = [len(one.input_ids) for one in found]
        # The trainer would drop that sequence, and train the others.
        if 0 < self.token_budget < max(sizes, default=0):
            sampled = sum(sum(one.completion_mask) for one in found)
            budget = f"sequences of {sizes} tokens ({sampled} of them sampled), and a token_budget of {self.token_budget}"
            return self.refuse(budget)
        self.ended += 1
        calls = [call for sample in answer["trace"] for call in trained_calls(sample)]
        ids = [token for call in calls for token in call["completion_token_ids"]]
        said = [{"role": "assistant", "content": self.tokenizer.decode(ids)}]
        return said, ids, found, 0, 0, answer["reward"]


class OsmosisWorker(AsyncRolloutWorker):
    """The rollout_worker of AsyncGRPOTrainer."""

    _loop_cls = OsmosisLoop


def osmosis_worker(server, rows, *, model, dataset, tokenizer, args, **settings):
    """args: the AsyncGRPOConfig of the trainer. settings: api_key and tries of OsmosisLoop."""
    if args.max_inflight_tasks < 1:
        raise ValueError("set max_inflight_tasks of AsyncGRPOConfig: the number of concurrent rollouts")
    sampling = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    return OsmosisWorker(
        server=server,
        rows=rows,
        model_name=model,
        dataset=dataset,
        reward_funcs=[],
        processing_class=tokenizer,
        num_generations=args.num_generations,
        max_inflight_tasks=args.max_inflight_tasks,
        queue_maxsize=args.queue_maxsize,
        vllm_server_url=args.vllm_server_base_url,
        max_tokens=args.max_completion_length,
        log_completions=args.log_completions,
        num_completions_to_print=args.num_completions_to_print,
        token_budget=args.token_budget or 0,
        **{name: getattr(args, name) for name in sampling},
        **settings,
    )
