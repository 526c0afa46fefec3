"""Checks learner.py with the real torch, transformers and peft: python real_parts.py [--seeds 4] [--updates 12] [--only NAME]

It makes a tiny Qwen3 for each seed and prints the figures of each check; a failed check ends it with an error.
"""
import argparse
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from doors import attempt_doors
from learner_process import LEARNER, READ_NOTE, LearnerProcess, question, sequence

TINY_MODEL = Path(__file__).parents[3] / "create/templates/examples/doors/make_tiny_model.py"
DOOR = [question(3)]
CALL = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'


def start(model, rank, *flags):
    return LearnerProcess("--model", str(model), "--lora-rank", str(rank), "--max-length", "512", *flags)


def check(holds, what):
    if not holds:
        raise SystemExit(f"FAILED: {what}")


def check_turns(model):
    """The second turn extends the first one's tokens, whatever the model wrote and however its tokens are split."""
    sys.path.insert(0, str(LEARNER.parent))
    from answers import Conversations, parse_answer
    from policy import TransformersPolicy

    options = argparse.Namespace(model=str(model), device="cpu", dtype="auto", lora_rank=0, seed=0, exact=True, max_length=512)
    policy = TransformersPolicy(options)
    conversations = Conversations(policy)
    end = policy.tokenizer.convert_tokens_to_ids("<|im_end|>")
    check(policy.end_ids == {end}, f"the end tokens are {policy.end_ids}")
    texts = [CALL, f"  I read it. \n\n{CALL}", f"<think>\nHm.\n\n</think>\n\n{CALL}", f"<think>\n\n</think>\n\n{CALL}", f"{CALL}\n{CALL}", " x\n\t ", "ü é 👩‍👩‍👧"]
    for text, cut, split in itertools.product(texts, (False, True), (False, True)):
        prompt = conversations.prompt(DOOR, [READ_NOTE], {})
        # Split otherwise than the tokenizer would: letter by letter.
        ids = [i for letter in text for i in policy.encode(letter)] if split and "<" not in text else policy.encode(text)
        ids = ids if cut else [*ids, end]
        message = parse_answer(text, [READ_NOTE], policy.template)
        conversations.remember(DOOR, [READ_NOTE], {}, message, prompt + ids)
        echo = {key: value for key, value in message.items() if key != "reasoning_content"}
        echo["content"] = echo["content"] or ""
        follow = [{"role": "tool", "tool_call_id": call["id"], "content": "ab"} for call in message.get("tool_calls", [])]
        second = conversations.prompt([*DOOR, echo, *(follow or [{"role": "user", "content": "Sure?"}])], [READ_NOTE], {})
        check(second[: len(prompt + ids)] == prompt + ids, f"the second turn does not extend {text!r}")
        after = policy.decode(second[len(prompt + ids) :])
        check(after.startswith("<|im_end|>\n<|im_start|>user" if cut else "\n<|im_start|>user"), f"{after!r} follows {text!r}")
        check(after.endswith("<|im_end|>\n<|im_start|>assistant\n"), f"{after!r} follows {text!r}")
    check(conversations.rewritten == 0, "no conversation is rendered again")
    print(f"turns: {4 * len(texts)} second turns extend the first")


# Chat templates that lack tools; the second one refuses system messages, and the third one leaves them out.
WITHOUT_TOOLS = {
    "plain": "{% for message in messages %}",
    "no system": "{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}",
    "ignored system": "{% for message in messages if message['role'] != 'system' %}"}


def check_templates_without_tools(model, folder):
    """The tools are described in a message, and the conversation continues as with a template that knows them."""
    for name, begin in WITHOUT_TOOLS.items():
        copy = Path(folder, name)
        shutil.copytree(model, copy)
        (copy / "chat_template.jinja").write_text(
            begin + "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
        check_turns(copy)
        learner = start(copy, 0)
        learner.post("/export", {"folder": f"{copy}-exported"})
        learner.close()
        exported = transformers_template(f"{copy}-exported")
        first = exported(DOOR, [READ_NOTE])
        check(first.startswith("<|im_start|>system\n" if name == "plain" else "<|im_start|>user\n"), f"{name}: {first!r}")
        check("read_note" in first and "<tool_call>" in first, f"{name} describes no tool: {first!r}")
        check("read_note" not in exported(DOOR, None), f"{name} describes a tool that the request does not have")
        print(f"templates: {name} gets tools, also where the exported folder is served")


def transformers_template(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda messages, tools: tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)


def check_unreachable_hub(model):
    def estimate(model, **environment):
        began = time.monotonic()
        ended = subprocess.run([sys.executable, str(LEARNER), "--model", model, "--estimate"], capture_output=True, text=True,
                               env={**os.environ, **environment})
        return ended, time.monotonic() - began

    _, usual = estimate(model)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ended, seconds = estimate("some/thing", HF_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
    check(ended.returncode == 78 and "pass --model with the folder" in ended.stderr, f"a hub that does not answer gives {ended.stderr}")
    check(seconds < usual + 30, f"a hub that does not answer takes {seconds:.0f} s")
    print(f"hub: the error came after {seconds:.0f} s; a model of a folder took {usual:.0f} s")


def check_lora_targets(model):
    def estimate(*flags):
        command = [sys.executable, str(LEARNER), "--model", str(model), "--lora-rank", "8", "--estimate", *flags]
        return subprocess.run(command, capture_output=True, text=True)

    trained = [json.loads(estimate(*flags).stdout)["trained_weights"] for flags in ([], ["--lora-targets", "q_proj,v_proj"])]
    check(0 < trained[1] < trained[0], f"fewer layers train as many weights: {trained}")
    refused = estimate("--lora-targets", "attention")
    check(refused.returncode == 78 and "It has down_proj, gate_proj" in refused.stderr, f"an unknown layer gives {refused.stderr}")
    print(f"targets: {trained[1]} of {trained[0]} weights in two kinds of layers")


def check_recomputing(model, rank):
    """Whether an update keeps what layers computed, or computes it again, changes no bit of the weights."""
    sys.path.insert(0, str(LEARNER.parent))
    from policy import TransformersPolicy
    from training import Sequence, Trainer

    options = argparse.Namespace(model=str(model), device="cpu", dtype="auto", lora_rank=rank, lora_targets="all-linear", seed=0, exact=True,
                                 max_length=512)
    settings = argparse.Namespace(surrogate="ppo", learning_rate=1e-3, weight_decay=0, epochs=2, minibatches=2, clip_low=0.2, clip_high=0.28, kl=0,
                                  importance_cap=2, max_grad_norm=1, max_drift=1e9, seed=0)
    weights = []
    for recomputes in (True, False):
        policy = TransformersPolicy(options)
        policy.recomputes = recomputes
        sequences = [Sequence([at] * 20, [0] * 5 + [1] * 15, [-1] * 20, [(-1) ** at] * 20, 1, 0.01) for at in range(20)]
        Trainer(policy, 1e-3, 100).update("policy_gradient", sequences, settings)
        weights.append(policy.trained)
    check(all(bool((weight == weights[1][name]).all()) for name, weight in weights[0].items()), "the weights differ")
    print(f"rank {rank}: kept or computed again, the weights are the same")


def check_state(model, rank, folder):
    learner = start(model, rank)
    ready = learner.ready
    print(f"rank {rank}: weights {ready['weights']}, trained {ready['trained_weights']}, memory {ready['memory_bytes']}")

    def train(learner, seed):
        answers = [learner.chat([question(door)], seed=seed, temperature=1.3) for door in range(8)]
        sequences = [sequence(answer, advantage=(-1.0) ** at, temperature=1.3) for at, answer in enumerate(answers)]
        body = {"loss": "policy_gradient", "sequences": sequences, "learning_rate": 1e-3, "epochs": 2, "kl": 0.01, "seed": seed}
        return sequences, {**learner.post("/update", body), "seconds": 0}

    train(learner, 1)
    learner.post("/save", {"folder": f"{folder}/state"})
    expected = [train(learner, 2)]
    expected.append(train(learner, 3))
    learner.close()
    learner = start(model, rank)
    learner.post("/load", {"folder": f"{folder}/state"})
    check([train(learner, 2), train(learner, 3)] == expected, "a loaded state continues exactly")
    learner.close()
    print(f"rank {rank}: continues exactly; figures of the last update {expected[1][1]}")


def check_learning(model, rank, seed, updates):
    learner = start(model, rank, "--seed", str(seed))
    curve, drift, tools, began, sampling, training = [], 0.0, [], time.monotonic(), 0.0, 0.0
    for step in range(updates + 1):
        at = time.monotonic()
        reward, sequences = attempt_doors(learner)
        sampling += time.monotonic() - at
        curve.append(round(reward, 2))
        if step < updates:
            at = time.monotonic()
            figures = learner.post("/update", {
                "loss": "policy_gradient", "sequences": sequences, "learning_rate": 2e-3 if rank else 1e-3, "epochs": 2,
                "minibatches": 2, "seed": step})
            training += time.monotonic() - at
            drift = max(drift, figures["drift_max"])
    cpu = sum(float(x) for x in Path(f"/proc/{learner.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]) / 100
    rewritten = learner.request("/health")[1]["rewritten"]
    learner.close()
    print(f"learning, rank {rank}, seed {seed}: {curve} drift {drift:.1e}, rewritten {rewritten}, sampling {sampling:.0f} s, "
          f"updates {training:.0f} s, CPU {cpu:.0f} s", flush=True)
    check(drift < 1e-4, f"the drift is {drift:.1e}")
    check(curve[0] < 0.5 and max(curve) > 0.8, "it does not learn")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--models", help="folders of models made before: this text with the seed after it")
    parser.add_argument("--only", choices=["turns", "templates", "targets", "hub", "memory", "state", "learning"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = [options.models or f"{folder}/qwen-"] * options.seeds
        models = [f"{model}{seed}" for seed, model in enumerate(models)]
        for seed, model in enumerate(models):
            if not Path(model).exists():
                maker = TINY_MODEL
                subprocess.run([sys.executable, str(maker), model, "--seed", str(seed)], check=True)
        if options.only in (None, "turns"):
            check_turns(models[0])
        if options.only in (None, "templates"):
            check_templates_without_tools(models[0], folder)
        if options.only in (None, "targets"):
            check_lora_targets(models[0])
        if options.only in (None, "hub"):
            check_unreachable_hub(models[0])
        for rank in (8, 0):
            if options.only in (None, "memory"):
                check_recomputing(models[0], rank)
            if options.only in (None, "state"):
                check_state(models[0], rank, f"{folder}/rank-{rank}")
            if options.only in (None, "learning"):
                for seed, model in enumerate(models):
                    check_learning(model, rank, seed, options.updates)


if __name__ == "__main__":
    main()
