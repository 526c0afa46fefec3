"""Tests of the learner with models of transformers, for which it needs torch, transformers and peft: python test_transformers_policy.py

What is expected comes from a plain model of transformers, which reads one sequence at a time: without cache, padding, batch or adapter.
"""
import copy
import itertools
import json
import os
import random
import sys
import tempfile
import threading
import time
import unittest
from argparse import Namespace
from pathlib import Path
from unittest import mock

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "learner"), str(HERE.parents[2] / "create/templates/examples/doors")]

import bounded
import torch
import transformers
from bodies import Problem
from learner import Learner
from memory import MemoryPlan
from make_tiny_model import make_tokenizer
from policy import TransformersPolicy
from sampling import Request, Sampler, Turns
from training import Sequence, Trainer

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()

WINDOW = 8
RANK = 4
TEMPERATURES = [0, 0.4, 0.8, 1, 1.6]
# What rounding of single precision adds up to, and a hundredth of what one hidden or shifted token changes.
NOISE = 2e-4

# Each treats something otherwise than the others: norms of queries, bias, scales and caps of logits, windows, places of tokens.
FAMILIES = {
    "Qwen3": lambda **shape: transformers.Qwen3Config(tie_word_embeddings=True, **shape),
    "Llama": lambda **shape: transformers.LlamaConfig(tie_word_embeddings=False, attention_bias=True, **shape),
    "Granite": lambda **shape: transformers.GraniteConfig(
        logits_scaling=4.0, embedding_multiplier=3.0, residual_multiplier=0.7, attention_multiplier=0.2, **shape),
    "Cohere": lambda **shape: transformers.CohereConfig(logit_scale=0.25, **shape),
    "Mistral": lambda **shape: transformers.MistralConfig(sliding_window=WINDOW, tie_word_embeddings=False, **shape),
    # Its places are absolute, and its matrices lie the other way round.
    "GPT2": lambda num_key_value_heads, head_dim, **shape: transformers.GPT2Config(**shape),
    "Gemma2": lambda **shape: transformers.Gemma2Config(sliding_window=WINDOW, final_logit_softcapping=6.0, **shape),
}
WITH_WINDOWS = {"Mistral", "Gemma2"}
# Else each family samples in one of the two ways, and a case has fewer answers.
ALL_RUNS = bool(os.environ.get("OSMOSIS_TESTS_ALL_RUNS"))
EXACT = {"Llama", "Mistral", "GPT2"}


def setUpModule():
    global folder
    folder = tempfile.TemporaryDirectory()
    tokenizer = make_tokenizer()
    for name, make in FAMILIES.items():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(make(
            vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=12, max_position_embeddings=384, initializer_range=0.2,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None)).eval()
        spread(model)
        model.save_pretrained(f"{folder.name}/{name}")
        tokenizer.save_pretrained(f"{folder.name}/{name}")


def tearDownModule():
    folder.cleanup()


@torch.no_grad()
def spread(model):
    """Makes some tokens likely and others not, as with trained weights. Random ones make all alike, and then no mistake changes much."""
    ids = torch.arange(200)[None] % model.config.vocab_size
    last = model.base_model.ln_f if model.config.model_type == "gpt2" else model.base_model.norm
    norm, is_from_one = last.weight, model.config.model_type == "gemma2"
    for _ in range(8):  # a cap bends it
        factor = 2.5 / model(ids).logits[0, 20:].std()
        norm.copy_((norm + 1) * factor - 1 if is_from_one else norm * factor)


def options(name, rank=RANK, **more):
    return Namespace(**{
        "model": f"{folder.name}/{name}", "device": "cpu", "dtype": "auto", "lora_rank": rank, "lora_targets": "all-linear", "seed": 0, "exact": False,
        "max_length": 384, "learning_rate": 1e-3, "micro_batch_tokens": 300, "batch": 6, "log": [], **more})


class WatchedPolicy(TransformersPolicy):
    """Counts what the sampler asks for, and tells before each step."""

    def __init__(self, *settings):
        super().__init__(*settings)
        self.steps, self.started, self.joined, self.before_step, self.sizes = 0, [], [], lambda step: None, []

    def start(self, prompts):
        self.started.append(prompts)
        return self.seen(super().start(prompts))

    def step(self, state, rows, tokens):
        self.steps += 1
        self.before_step(self.steps)
        return self.seen(super().step(state, rows, tokens))

    def join(self, state, other):
        self.joined.append((state[1].shape[1], other[1].shape[1]))
        return super().join(state, other)

    def seen(self, result):
        _, mask, _, lengths = result[1]
        self.sizes.append((len(lengths), max(lengths), mask.shape[1]))
        return result


def changed(policy, seed=1):
    """The policy with weights that differ from those of the start, as after updates."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in policy.trained.items():
            noise = torch.randn(weight.shape, generator=chance)
            if "lora_" in name:
                weight.copy_(noise * (0.15 if "lora_B" in name else 0.3))
            else:
                weight.add_(noise * 0.05 * weight.std().nan_to_num(0))
    return policy


def start_of(policy):
    return transformers.AutoModelForCausalLM.from_pretrained(policy.name, dtype=torch.float32).eval()


def plain(policy):
    """A model of transformers with the policy's weights: twice the product of the two matrices of an adapter is added, whatever its rank."""
    model = start_of(policy)
    own, trained = dict(model.named_parameters()), policy.trained
    with torch.no_grad():
        for name, weight in trained.items():
            if "lora_A" in name:
                target = own[name.removeprefix("base_model.model.").replace(".lora_A.default", "")]
                change = 2 * trained[name.replace("lora_A", "lora_B")] @ weight
                target.add_(change.T if model.config.model_type == "gpt2" else change)
            elif "lora_" not in name:
                own[name].copy_(weight)
    return model


@torch.no_grad()
def distributions(model, ids, temperature):
    """The logprobs of all tokens at each place of a sequence but its first."""
    return torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1].double() / (temperature or 1.0), -1)


def logprobs_of(model, ids, temperature):
    return distributions(model, ids, temperature).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]


def asked(policy, seed, length, temperature=1, most=20, stop=()):
    chance = random.Random(f"prompt {seed}")
    request = Request([chance.randrange(policy.vocabulary_size) for _ in range(length)], temperature, most, list(stop), seed)
    request.seed = seed
    return request


def sampler_of(policy, batch=6, most_tokens=10**6, exact=False):
    return Sampler(policy, Namespace(version=0), Turns(), batch, most_tokens, exact)


def sample(policy, requests, later=(), leave=(), sampler=None, **settings):
    """Answers these together; `later` has those that come before a step, as (step, request or update), and `leave` those whose client goes away."""
    sampler = sampler or sampler_of(policy, **settings)
    policy.steps = 0

    def before_step(step):
        for at, request in later:
            if at == step:
                request.come() if isinstance(request, UpdateThen) else sampler.submit(request)
        for at, request in leave:
            if at == step:
                request.cancel()

    policy.before_step = before_step
    with sampler.lock:
        for request in requests:
            sampler.submit(request)
    every = [*requests, *(request for _, request in later)]
    for request in every:
        deadline = time.monotonic() + 30
        while not request.done.wait(0.1):
            # After an error there are no steps, and those who were to come later do not.
            error = next((other.error for other in every if later and other.error), None)
            if error:
                raise error
            if time.monotonic() > deadline:
                raise AssertionError(f"a request of {len(request.prompt)} tokens has {len(request.ids)} tokens of {request.most}, and no more come")
    policy.before_step = lambda step: None
    return every


class UpdateThen(threading.Thread):
    """Waits for the lock of the sampler, as an update does, while an answer is sampled; these requests come after it has asked for it."""

    def __init__(self, sampler, requests):
        super().__init__()
        self.sampler, self.requests, self.error, self.done = sampler, requests, None, threading.Event()

    def come(self):
        self.start()
        while not self.sampler.lock.wanted:
            time.sleep(0.001)
        for request in self.requests:
            self.sampler.submit(request)

    def run(self):
        with self.sampler.lock:
            changed(self.sampler.policy, seed=2)
            self.sampler.trainer.version += 1
        self.done.set()


class Rules(unittest.TestCase):
    def assertDrawn(self, model, request):
        """Each token is the first whose cumulated probability exceeds its draw, the likeliest one at temperature 0, and has its logprob."""
        self.assertIsNone(request.error)
        known = distributions(model, request.prompt + request.ids, request.temperature)[len(request.prompt) - 1 :]
        self.assertEqual((len(request.ids), len(request.logprobs)), (len(known), len(known)))
        draws = random.Random(request.seed)
        for place, (token, logprob) in enumerate(zip(request.ids, request.logprobs)):
            where = f"token {place} after {len(request.prompt)} of the prompt, at temperature {request.temperature}"
            self.assertLess(abs(logprob - float(known[place, token])), NOISE, f"logprob of {where}")
            probabilities, draw = known[place].exp(), draws.random()
            if request.temperature == 0:
                self.assertLess(float(known[place].max() - known[place, token]), NOISE, where)
            else:
                below = float(probabilities[:token].sum())
                self.assertLess(below - NOISE, draw, where)
                self.assertGreater(below + float(probabilities[token]) + NOISE, draw, where)

    def assertEnded(self, policy, request):
        """An answer has no token after one that ends it, and as many as it may have where none does."""
        *before, last = request.ids
        self.assertFalse(policy.end_ids & {*before}, "an end token is followed by others")
        if last in policy.end_ids:
            self.assertEqual(request.finish, "stop")
        else:
            self.assertEqual((request.finish, len(request.ids)), ("length", request.most))

    def each(self, families=None, **more):
        """These families with and without `exact`; default: all of them, in one of both ways unless all runs are wanted."""
        for name in families or FAMILIES:
            for exact in (False, True) if families or ALL_RUNS else (name in EXACT,):
                policy = changed(WatchedPolicy(options(name, exact=exact, **more)))
                # Some answers end before their limit.
                policy.end_ids = {*policy.end_ids, *range(5, policy.vocabulary_size, 40)}
                yield name, policy, exact


class Sampling(Rules):
    def test_each_token_is_that_of_its_draw_where_requests_join_and_leave_a_running_batch(self):
        for name, policy, exact in self.each():
            with self.subTest(family=name, exact=exact):
                chance = random.Random(7)
                requests = [
                    asked(policy, seed, chance.randint(1, 40), TEMPERATURES[seed % 5], chance.randint(1, 24)) for seed in range(22)]
                # Others join while it is answered, and it leaves room before them all when it ends.
                requests[3] = asked(policy, 3, 150, 1, 14)
                requests[12] = asked(policy, 12, 230, 1, 6)
                away = requests[1] = asked(policy, 1, 12, 1, 200)
                later = [(2 + 2 * at, request) for at, request in enumerate(requests[5:])]
                every = sample(policy, requests[:5], later, leave=[(2, away)], exact=exact)
                model = plain(policy)
                for request in every:
                    self.assertDrawn(model, request)
                    if request is not away:
                        self.assertEnded(policy, request)
                self.assertLessEqual(len(away.ids), 3)
                finishes = [request.finish for request in every]
                self.assertTrue({"stop", "length"} <= {*finishes}, finishes)
                self.assertEqual(len(policy.joined) > 2, name not in WITH_WINDOWS)
                self.assertLessEqual(max(rows for rows, _, _ in policy.sizes), 6)
                self.assertGreater(max(rows for rows, _, _ in policy.sizes), 4)
                if name not in WITH_WINDOWS:
                    waste = [(longest, width) for _, longest, width in policy.sizes if width >= longest + 64]
                    self.assertEqual(waste, [], "the padding of a long conversation stays after it has ended")
                    self.assertTrue(any(wide > 150 > new for wide, new in policy.joined), "nobody joins a longer one")
                    self.assertTrue(any(wide < new for wide, new in policy.joined), "nobody joins shorter ones")

    def test_answers_that_lose_their_place_in_a_full_cache_continue_later(self):
        for name, policy, exact in self.each():
            with self.subTest(family=name, exact=exact):
                policy.end_ids = set()
                # The last one takes more than the whole cache, and has it for itself.
                requests = [asked(policy, seed, 3 + 4 * seed, TEMPERATURES[seed % 5], 60) for seed in range(5)] + [asked(policy, 7, 180, 1, 10)]
                later = [(6 + 3 * at, asked(policy, 20 + at, 5, 1, 15)) for at in range(3)]
                every = sample(policy, requests, later, most_tokens=130, exact=exact)
                model = plain(policy)
                for request in every:
                    self.assertDrawn(model, request)
                    self.assertEnded(policy, request)
                over = [(rows, longest) for rows, longest, _ in policy.sizes if rows > 1 and rows * longest > 130]
                self.assertEqual(over, [])
                prompts = {tuple(request.prompt) for request in every}
                again = [prompt for prompts_of in policy.started for prompt in prompts_of if tuple(prompt) not in prompts]
                self.assertGreater(len(again), 2, "no answer lost its place")

    def test_a_token_of_the_cache_takes_as_many_bytes_as_the_sampler_counts(self):
        for name in FAMILIES:
            with self.subTest(family=name):
                policy = TransformersPolicy(options(name))
                with torch.no_grad():
                    _, (cache, *_) = policy.start([[1, 2, 3], [4, 5, 6]])
                used = sum(part.numel() * part.element_size() for layer in cache.layers for part in (layer.keys, layer.values))
                self.assertEqual(used, 2 * 3 * policy.cache_bytes)

    def test_with_a_seed_an_answer_does_not_depend_on_the_others(self):
        for name in ("Qwen3", "Mistral"):
            with self.subTest(family=name):
                policy = changed(WatchedPolicy(options(name, exact=True)))

                def requests():
                    return [asked(policy, seed, 3 + 7 * seed % 90, TEMPERATURES[seed % 5], 8 + seed) for seed in range(12)]

                alone = [sample(policy, [request], exact=True)[0] for request in requests()]
                together = requests()
                sample(policy, together[:3], [(at, request) for at, request in enumerate(together[3:], 2)], batch=4, most_tokens=260, exact=True)
                for one, other in zip(alone, together):
                    self.assertEqual((one.ids, one.logprobs, one.finish), (other.ids, other.logprobs, other.finish))

    def test_those_who_wait_for_an_update_are_answered_by_its_weights_and_the_others_by_the_weights_before(self):
        policy = changed(WatchedPolicy(options("Qwen3")))
        policy.end_ids = set()
        early, late = [asked(policy, seed, 9, 1, 12) for seed in range(2)], [asked(policy, seed, 5, 1, 12) for seed in range(2, 4)]
        sampler, before = sampler_of(policy, batch=4), plain(policy)
        sample(policy, early, [(3, UpdateThen(sampler, late))], sampler=sampler)
        for model, version, some in ((before, 0, early), (plain(policy), 1, late)):
            for request in some:
                self.assertTrue(request.done.wait(30))
                self.assertEqual(request.version, version)
                self.assertDrawn(model, request)

    def test_an_answer_that_lost_its_place_before_an_update_keeps_its_version_and_continues_with_the_new_weights(self):
        policy = changed(WatchedPolicy(options("Llama")))
        policy.end_ids = set()
        first, second = (asked(policy, seed, 20, 1, 40) for seed in range(2))
        sampler, before = sampler_of(policy, most_tokens=106), plain(policy)
        update = UpdateThen(sampler, [])
        sample(policy, [first, second], [(36, update)], sampler=sampler)
        self.assertEqual((first.version, second.version, sampler.trainer.version), (0, 0, 1))
        self.assertDrawn(before, first)
        self.assertEqual([len(prompt) for prompt in policy.started[-1]], [20 + 33])
        known = zip(second.logprobs, *(logprobs_of(model, second.prompt + second.ids, 1)[19:] for model in (before, plain(policy))))
        for place, (logprob, old, new) in enumerate(known):
            self.assertLess(abs(logprob - float(old if place < 33 else new)), NOISE, place)

    def test_logits_that_are_not_finite_are_an_error_of_all_that_are_sampled_with_them_and_of_nobody_else(self):
        for name, policy, exact in self.each(("Llama", "Mistral"), rank=0):
            sampler = sampler_of(policy, exact=exact)
            for broken, row, temperature in itertools.product((float("nan"), float("inf")), range(3), (0, 1)):
                with self.subTest(family=name, exact=exact, broken=broken, row=row, temperature=temperature):
                    with torch.no_grad():
                        policy.causal.get_input_embeddings().weight[7] = broken

                    def without(seed):
                        request = asked(policy, seed, 6, temperature, 1)
                        request.prompt = [8 if token == 7 else token for token in request.prompt]
                        return request

                    every = [without(seed) for seed in range(3)]
                    every[row].prompt[3] = 7
                    sample(policy, every, sampler=sampler)
                    self.assertEqual([request.error and request.error.body["error"]["code"] for request in every], ["not_finite"] * 3)
                    self.assertEqual([request.ids for request in every], [[]] * 3)
                    [later] = sample(policy, [without(4)], sampler=sampler)
                    self.assertEqual((later.error, len(later.ids)), (None, 1))


class Stops(Rules):
    """An answer ends with the first token after which a stop text is in what was said, wherever it is in there."""

    def stops_of(self, policy, ids, chance):
        """Texts of an answer: within one token, across tokens, at their ends, and letters; and such that are not in it."""
        pieces, text = [policy.decode([token]) for token in ids], policy.decode(ids)
        long = [piece for piece in pieces if len(piece) > 2]
        at = chance.randrange(len(text) - 4)
        inner = chance.choice(long)
        yield [inner[1:-1]]
        yield [inner[:-1]]
        yield [inner[1:]]
        yield [text[at : at + 3]]
        yield [text[at : at + 4], "not said", chance.choice(long)[:2]]
        yield ["not said", text[-2:]]
        yield [chance.choice(text), chance.choice(text)]
        yield ["not said"]

    def test_an_answer_ends_with_the_token_that_completes_a_stop_text(self):
        for name in ("Qwen3", "Gemma2"):
            policy, chance = changed(WatchedPolicy(options(name))), random.Random(3)
            policy.end_ids = set()
            free = sample(policy, [asked(policy, seed, 5 + seed, 1, 40) for seed in range(6 if ALL_RUNS else 4)])
            cases, inside = [], 0
            for request in free:
                for stop in self.stops_of(policy, request.ids, chance):
                    texts = [policy.decode(request.ids[: count + 1]) for count in range(40)]
                    count = next((count for count, text in enumerate(texts, 1) if any(one in text for one in stop)), None)
                    inside += count is not None and not any(texts[count - 1].endswith(one) for one in stop)
                    again = asked(policy, request.seed, len(request.prompt), 1, 40, stop)
                    cases.append((again, request.ids[:count], "length" if count is None else "stop"))
            self.assertGreater(inside, 4 if ALL_RUNS else 2, "no stop text is in the middle of a token")
            sample(policy, [again for again, _, _ in cases])
            for again, ids, finish in cases:
                with self.subTest(family=name, stop=again.stop, seed=again.seed):
                    self.assertEqual((again.ids, again.finish), (ids, finish))

    def test_the_message_has_what_was_said_before_the_first_stop_text(self):
        learner, chance = learner_of("Llama"), random.Random(5)
        learner.policy.end_ids = set()
        asking = {"messages": [{"role": "user", "content": "What is the code?"}], "max_tokens": 30}
        cut = 0
        for seed in range(12 if ALL_RUNS else 5):
            free = ask(learner, {**asking, "seed": seed})["choices"][0]
            said = learner.policy.decode(free["token_ids"])
            if "<" in said:
                continue
            for stop in self.stops_of(learner.policy, free["token_ids"], chance):
                choice = ask(learner, {**asking, "seed": seed, "stop": stop})["choices"][0]
                places = [said.index(one) for one in stop if one in said]
                with self.subTest(stop=stop, said=said):
                    self.assertEqual(choice["message"]["content"], said[: min(places)] if places else said)
                    self.assertEqual(choice["finish_reason"], "stop" if places else "length")
                cut += bool(places)
        self.assertGreater(cut, 20 if ALL_RUNS else 10)


class Client:
    def gone(self):
        return False


def learner_of(name, cache=10**9, **more):
    return Learner(changed(WatchedPolicy(options(name, **more))), options(name, **more), MemoryPlan({}, 0, cache, 1, False))


def ask(learner, body):
    return learner.chat(body, Client())


class Limits(Rules):
    def test_a_prompt_and_its_answer_have_at_most_the_length_of_the_context_and_the_answer_as_many_tokens_as_asked_for(self):
        for longest, context in ((96, 96), (2000, 384)):
            learner = learner_of("Granite", max_length=longest)
            learner.policy.end_ids = set()
            self.assertEqual(learner.policy.max_length, context)
            # Long prompts, so that the answers which fill the context are short.
            for room in (85 if context == 96 else 60, 40, 20):
                message = {"messages": [{"role": "user", "content": "1" * (context - room)}]}
                for limit in ({}, {"max_tokens": 3}, {"max_tokens": 7, "max_completion_tokens": 5}, {"max_tokens": context + 9}):
                    answer = ask(learner, {**message, **limit})
                    most = limit.get("max_completion_tokens", limit.get("max_tokens", context))
                    expected = min(most, context - len(answer["prompt_token_ids"]))
                    self.assertEqual(answer["usage"]["completion_tokens"], expected)
                    self.assertEqual(answer["choices"][0]["finish_reason"], "length")
            with self.assertRaises(Problem):
                ask(learner, {"messages": [{"role": "user", "content": "1" * context}]})

    def test_the_cache_of_a_learner_has_no_more_bytes_than_it_got(self):
        bytes_per_token = TransformersPolicy(options("Qwen3")).cache_bytes
        learner = learner_of("Qwen3", cache=200 * bytes_per_token)
        learner.policy.end_ids = set()
        bodies = [{"messages": [{"role": "user", "content": "door " * at}], "max_tokens": 30} for at in range(6)]
        threads = [threading.Thread(target=ask, args=(learner, body)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([size for size in learner.policy.sizes if size[0] > 1 and size[0] * size[1] > 200], [])


def trained_sequences(policy, seed=0, count=9):
    """As a request to update has them: unequal lengths, more than one answer in some, and a temperature each."""
    chance, sequences = random.Random(seed), []
    model = plain(policy)
    for at in range(count):
        ids = [chance.randrange(policy.vocabulary_size) for _ in range(chance.randint(2, 60))]
        mask = [0] + [int(chance.random() < 0.6) for _ in ids[2:]] + [1]
        temperature = TEMPERATURES[at % 5]
        own = [0.0, *logprobs_of(model, ids, temperature).tolist()]
        sequences.append({
            "ids": ids, "mask": mask, "logprobs": [value * on for value, on in zip(own, mask)], "temperature": temperature,
            "advantages": [chance.uniform(-1, 1) * on for on in mask], "scale": chance.uniform(0.005, 0.02)})
    return sequences


def longrope_model():
    """A model like Phi-3.5, with other factors for what is longer than 64 tokens."""
    place = f"{folder.name}/Phi3"
    tokenizer = make_tokenizer()
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 6, "long_factor": [3.0] * 6, "original_max_position_embeddings": 64}
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.Phi3Config(
        vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=384, original_max_position_embeddings=64, rope_parameters=rope, initializer_range=0.2,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None)).eval()
    spread(model)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)


class Models(unittest.TestCase):
    def test_with_longrope_no_answer_crosses_the_border_and_no_batch_has_both_of_its_sides(self):
        longrope_model()
        learner = learner_of("Phi3", rank=0, micro_batch_tokens=4096)
        self.assertEqual((learner.policy.max_length, learner.policy.longest), (64, 384))
        model, chance = plain(learner.policy), random.Random(1)
        sequences = [{"ids": [chance.randrange(learner.policy.vocabulary_size) for _ in range(length)]} for length in (40, 64, 65, 120, 12)]
        measured = learner.logprobs({"sequences": sequences}, None)["logprobs"]
        for mine, one in zip(measured, sequences):
            expected = logprobs_of(model, one["ids"], 1)
            self.assertLess((torch.tensor(mine[1:]) - expected).abs().max(), NOISE)

    def test_those_whose_caches_cannot_be_joined_say_so(self):
        for name in FAMILIES:
            self.assertEqual(TransformersPolicy(options(name)).waits, name in WITH_WINDOWS, name)

    def test_a_template_that_does_not_end_is_ended(self):
        policy = TransformersPolicy(options("Qwen3"))
        loop, end = "{% for i in range(100000) %}", "{% endfor %}"
        for template, said in [
            (loop + loop + end + end, "runs for more"), (loop + loop + "x" + end + end, "runs for more"),
            ("{{ 'x' * 10000000000 }}", "a value of"), ("{{ 2 ** 1000000000 }}", "computes 2"),
            ("{% set n = namespace(s='abc') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s }}", "a value of"),
            ("{{ 'x' * 16000000 }}{{ 'x' * 16000000 }}", "writes"),
        ]:
            policy.tokenizer.chat_template = template
            with mock.patch.object(bounded, "SECONDS", 0.2), self.assertRaisesRegex(bounded.TooMuch, said):
                policy.render([{"role": "user", "content": "hi"}], None, True)
        policy.tokenizer.chat_template = "{{ 'ab' * 3 + 'c' }}{{ 2 ** 5 + 1 }}"
        self.assertEqual(policy.render([{"role": "user", "content": "hi"}], None, True), "abababc33")


class Training(Rules):

    def test_logprobs_of_updates_are_those_of_each_sequence_alone(self):
        for name, rank in itertools.product(FAMILIES, (0, RANK)):
            with self.subTest(family=name, rank=rank):
                learner = learner_of(name, rank=rank)
                sequences = trained_sequences(learner.policy)
                model = plain(learner.policy)
                for recomputes in (True, False):
                    learner.policy.recomputes = recomputes
                    answer = learner.logprobs({"sequences": sequences}, None)["logprobs"]
                    for mine, one in zip(answer, sequences):
                        expected = logprobs_of(model, one["ids"], one["temperature"])
                        self.assertLess((torch.tensor(mine[1:]) - expected).abs().max(), NOISE)

    def test_the_adapter_counts_twice_at_each_rank(self):
        for rank in (1, 3, 16):
            with self.subTest(rank=rank), tempfile.TemporaryDirectory() as exported:
                learner = learner_of("Qwen3", rank=rank)
                [request] = sample(learner.policy, [asked(learner.policy, 1, 20, 1, 30)])
                self.assertDrawn(plain(learner.policy), request)
                learner.export({"folder": f"{exported}/adapter"}, None)
                config = json.loads(Path(exported, "adapter/adapter_config.json").read_text())
                self.assertEqual((config["r"], config["lora_alpha"]), (rank, 2 * rank))

    def test_adapters_are_at_the_layers_that_were_asked_for(self):
        for targets in ("all-linear", "q_proj", "v_proj,down_proj", "q_proj,lm_head"):
            with self.subTest(targets=targets):
                policy = TransformersPolicy(options("Llama", lora_targets=targets))
                layers = {name for name, part in start_of(policy).named_modules() if isinstance(part, torch.nn.Linear)}
                # All but the output, as QLoRA has it.
                chosen = layers - {"lm_head"} if targets == "all-linear" else {name for name in layers if name.split(".")[-1] in targets.split(",")}
                expected = {f"base_model.model.{name}.lora_{part}.default.weight" for name in chosen for part in "AB"}
                self.assertEqual(set(policy.trained), expected)

    def test_an_update_follows_the_gradient_of_each_sequence_alone_and_the_penalty_is_that_to_the_start(self):
        """With one step the ratio to the policy before is 1, and its gradient that of the logprob."""
        for name, rank in itertools.product(("Qwen3", "Granite", "Gemma2"), (0, RANK)):
            with self.subTest(family=name, rank=rank):
                learner = learner_of(name, rank=rank)
                policy, kl, rate = learner.policy, 0.7, 1e-2
                sequences = trained_sequences(policy)
                start, model = start_of(policy), adapted(policy)
                trained = {weight_name: weight for weight_name, weight in model.named_parameters() if weight.requires_grad}
                self.assertEqual(set(trained), set(policy.trained))
                total, penalties, tokens = 0.0, 0.0, 0
                for one in sequences:
                    ids, temperature = torch.tensor(one["ids"]), one["temperature"] or 1.0
                    logprobs = torch.log_softmax(model(ids[None]).logits[0, :-1] / temperature, -1).gather(-1, ids[1:, None])[:, 0]
                    mask, advantages = (torch.tensor(one[part][1:]).float() for part in ("mask", "advantages"))
                    gap = logprobs_of(start, one["ids"], one["temperature"]).float() - logprobs
                    penalty = (gap.exp() - gap - 1) * mask
                    total = total + one["scale"] * ((-advantages * logprobs + kl * penalty) * mask).sum()
                    penalties, tokens = penalties + float(penalty.detach().sum()), tokens + int(mask.sum())
                total.backward()
                optimizer = torch.optim.AdamW(trained.values(), lr=rate, weight_decay=0)
                norm = torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
                optimizer.step()
                figures = learner.update({
                    "loss": "policy_gradient", "sequences": sequences, "kl": kl, "learning_rate": rate}, None)
                self.assertGreater(penalties / tokens, 0.05, "the policy has not left the start")
                self.assertAlmostEqual(figures["kl"], penalties / tokens, delta=1e-3 * penalties / tokens)
                self.assertAlmostEqual(figures["grad_norm"], float(norm), delta=1e-3 * float(norm))
                self.assertLess(figures["drift_max"], NOISE)
                # The first step of AdamW is the sign of the gradient, which rounding decides where it is almost 0.
                different = [float(((policy.trained[key] - weight).abs() > 0.1 * rate).float().mean()) for key, weight in trained.items()]
                self.assertLess(max(different), 0.02)

    def test_an_update_takes_the_penalty_to_the_start_also_after_others(self):
        for name, rank in itertools.product(("Llama", "Mistral"), (0, RANK)):
            with self.subTest(family=name, rank=rank):
                learner = learner_of(name, rank=rank)
                start = start_of(learner.policy)
                for step in range(3):
                    sequences = trained_sequences(learner.policy, step)
                    model, penalties = plain(learner.policy), []
                    for one in sequences:
                        gap = logprobs_of(start, one["ids"], one["temperature"]) - logprobs_of(model, one["ids"], one["temperature"])
                        penalties += (gap.exp() - gap - 1)[torch.tensor(one["mask"][1:]).bool()].tolist()
                    expected = sum(penalties) / len(penalties)
                    figures = learner.update({"loss": "policy_gradient", "sequences": sequences, "kl": 0.01, "learning_rate": 3e-3}, None)
                    self.assertAlmostEqual(figures["kl"], expected, delta=1e-3 * expected)
                self.assertEqual(learner.trainer.version, 3)

    def test_a_model_whose_logits_are_not_finite_is_not_trained(self):
        for loss in ("policy_gradient", "cross_entropy"):
            learner = learner_of("Llama", rank=0)
            sequences = trained_sequences(learner.policy)
            with torch.no_grad():
                learner.policy.causal.base_model.layers[1].mlp.down_proj.weight[0, 0] = float("nan")
            before = copy.deepcopy(learner.trainer.state())
            with self.assertRaises(Problem) as refused:
                learner.update({"loss": loss, "sequences": sequences}, None)
            self.assertEqual((refused.exception.status, refused.exception.body["error"]["code"]), (409, "not_finite"))
            self.assertEqual(learner.trainer.version, 0)
            for name, weight in learner.policy.trained.items():
                self.assertTrue(torch.equal(weight.nan_to_num(7), before["weights"][name].nan_to_num(7)))


def adapted(policy):
    """A model of transformers whose trained weights have the names and values of the policy's."""
    from peft import LoraConfig, get_peft_model

    model = start_of(policy)
    if policy.lora:
        rank = policy.module.peft_config["default"].r
        model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                weight.copy_(policy.trained[name])
    return model


class Exports(Rules):
    def test_an_exported_folder_has_the_weights_of_now_for_plain_transformers(self):
        from peft import PeftModel

        cases = [(name, rank, "all-linear") for name in FAMILIES for rank in (0, RANK) if rank or ALL_RUNS or name in ("Qwen3", "Llama")]
        # Input and output share a matrix, and one of them has an adapter.
        cases += [(name, RANK, "q_proj,lm_head") for name in ("Qwen3", "Llama", "Granite")]
        for name, rank, targets in cases:
            with self.subTest(family=name, rank=rank, targets=targets), tempfile.TemporaryDirectory() as exported:
                learner = learner_of(name, rank=rank, lora_targets=targets)
                ids = [(at * at + 3 * at) % learner.policy.vocabulary_size for at in range(30)]
                [own] = learner.logprobs({"sequences": [{"ids": ids}]}, None)["logprobs"]
                before = {key: weight.clone() for key, weight in learner.policy.module.state_dict().items()}
                for merged in (False, True):
                    learner.export({"folder": f"{exported}/{merged}", "merged": merged}, None)
                whole = load(f"{exported}/True")
                kept = load(f"{exported}/False") if rank == 0 else PeftModel.from_pretrained(start_of(learner.policy), f"{exported}/False").eval()
                for model in (whole, kept):
                    self.assertLess((logprobs_of(model, ids, 1) - torch.tensor(own[1:])).abs().max(), NOISE)
                if "lm_head" in targets:
                    # Programs that share the matrix because of this would lose the adapter.
                    self.assertIs(json.loads(Path(exported, "True/config.json").read_text())["tie_word_embeddings"], False)
                self.assertFalse(Path(exported, "True/adapter_config.json").exists())
                self.assertEqual(rank > 0, Path(exported, "False/adapter_config.json").exists())
                for kind in (False, True):
                    tokenizer = transformers.AutoTokenizer.from_pretrained(f"{exported}/{kind}")
                    self.assertEqual(tokenizer.get_chat_template(), learner.policy.template)
                for key, weight in learner.policy.module.state_dict().items():
                    self.assertTrue(torch.equal(weight, before[key]), f"the export changes {key}")


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    sys.stderr.flush()
    # Threads of samplers still run, and PyTorch does not survive that while Python ends by itself.
    os._exit(not program.result.wasSuccessful())
