"""Computes updates of `table_policy.py` with nothing but Python's own numbers, and writes down what they come to: requests, figures
and weights, in `updates.jsonl`, which the test of the learner compares with.

    python3 reference_update.py            # writes updates.jsonl
    python3 reference_update.py --check    # fails unless updates.jsonl is what it would write

It follows the papers (PPO 1707.06347, GRPO 2402.03300, Dr. GRPO 2503.20783, DAPO 2503.14476, CISPO 2506.13585, GSPO 2507.18071,
AdamW 1711.05101) and the doc comments of `UpdateSettings`, one token at a time, with gradients derived by hand. It shares no code
with the learner.
"""
import json
import math
import random
import sys
from pathlib import Path

FILE = Path(__file__).with_name("updates.jsonl")
V = 12  # tokens
FIRST = [[((7 * to + 5 * before + to * before) % 11 - 5) / 10 for before in range(2 * V)] for to in range(V)]

# Ids, places that were sampled, advantage of each of these, temperature, and how far each recorded logprob is from the true one:
# a token with -0.9 was less likely when it was sampled, beyond the cap of importance weights.
SEQUENCES = [
    ([11, 0, 3, 5, 10], [2, 3, 4], [1.5, 1.5, 1.5], 1.0, [0.0, 0.1, -0.9]),
    ([11, 2, 2, 7, 10, 4, 11, 6, 8, 10], [3, 4, 7, 8, 9], [0.5, 0.5, -1.25, -1.25, -1.25], 0.7, [0.2, -0.2, 0.0, 0.3, -0.1]),
    ([5, 9, 10], [1, 2], [-2.0, -2.0], 1.0, [-0.3, 0.05]),
    ([11, 8, 1, 1, 6, 3, 10, 10], [4, 5, 6, 7], [1.0, 1.0, 1.0, 1.0], 1.3, [0.1, 0.0, -0.8, 0.15]),
    ([0, 1, 2, 3, 4, 5, 6], [6], [-0.75], 1.0, [0.25]),
    ([7, 7, 11, 9, 0, 10], [3, 4, 5], [-1.0, 2.0, 0.5], 0.5, [-0.15, 0.0, 0.1]),
    ([3, 11, 2, 10], [2, 3], [0.8, 0.8], 2.0, [0.0, -0.05]),
]

DEFAULTS = {
    "loss": "dapo", "longestAnswer": 16, "learningRate": 0.1, "epochs": 1, "minibatches": 1, "clipLow": 0.2, "clipHigh": 0.28, "kl": 0,
    "maxGradNorm": 100, "weightDecay": 0, "importanceCap": 2, "maxDrift": 1, "seed": 0}

# One after the other: weights and moments of the optimizer are those that the update before left.
UPDATES = [
    ("two passes in minibatches, with a penalty", "policy_gradient",
     {"epochs": 2, "minibatches": 2, "kl": 0.1, "maxGradNorm": 0.3, "seed": 3}),
    ("imitation", "cross_entropy", {"learningRate": 0.05, "seed": 4}),
    ("bounds and a cap of its own, three minibatches", "policy_gradient",
     {"epochs": 3, "minibatches": 3, "clipLow": 0.1, "clipHigh": 0.4, "importanceCap": 1.05, "seed": 5}),
    ("weights decay", "policy_gradient", {"weightDecay": 0.5, "epochs": 2, "learningRate": 0.08}),
    ("each sequence equally", "policy_gradient", {"loss": "grpo", "epochs": 2, "kl": 0.2, "maxGradNorm": 0.5, "seed": -7}),
    ("divided by a constant", "policy_gradient", {"loss": "dr_grpo", "epochs": 2, "maxGradNorm": 0.01, "seed": 8}),
    ("clipped weights keep their gradient", "policy_gradient", {"loss": "cispo", "clipLow": 1, "clipHigh": 1.15, "epochs": 3, "minibatches": 2, "seed": 9}),
    ("ratios of sequences", "policy_gradient", {"loss": "gspo", "epochs": 3, "clipLow": 0.03, "clipHigh": 0.04, "minibatches": 2, "seed": 10}),
    ("stale answers in one step", "policy_gradient", {"seed": 11}),
    ("stale answers in several steps", "policy_gradient", {"epochs": 2, "minibatches": 2, "seed": 12}),
]

# In these, the version before sampled every second sequence: the recorded logprobs are close to those of its weights.
STALE = {"stale answers in one step", "stale answers in several steps"}


def distribution(weights, ids, place, temperature):
    """Probabilities of the token at a place."""
    logits = []
    for row in weights:
        logit = row[ids[place - 1]]
        if place >= 2:
            logit += row[V + ids[place - 2]]
        logits.append(logit / temperature)
    top = max(logits)
    total = sum(math.exp(logit - top) for logit in logits)
    return [math.exp(logit - top) / total for logit in logits]


def logprob(weights, ids, place, temperature):
    return math.log(distribution(weights, ids, place, temperature)[ids[place]])


def bounded(ratio, settings):
    # That of CISPO limits the weight itself, as epsilon_high of TRL does.
    low, high = 1 - settings["clipLow"], settings["clipHigh"] + (settings["loss"] != "cispo")
    # A ratio so close to a bound could be on its other side in the learner's precision.
    assert min(abs(ratio - low), abs(ratio - high)) > 1e-4, f"the ratio {ratio} is too close to a bound: change the learning rate"
    return min(max(ratio, low), high)


class Figures:
    def __init__(self):
        self.loss = self.entropy = self.clipped = self.kl = self.norm = 0.0
        self.steps = 0


def add_gradient(gradient, ids, place, temperature, probabilities, slope):
    """Adds slope * d logprob / d weights."""
    for token in range(V):
        change = slope * ((token == ids[place]) - probabilities[token]) / temperature
        gradient[token][ids[place - 1]] += change
        if place >= 2:
            gradient[token][V + ids[place - 2]] += change


def sequence_gradient(weights, sequence, kind, settings, share, gradient, figures):
    """Adds the gradient of the loss of a sequence, and its loss without `share["minibatches"]` to the figures."""
    ids, places, advantages, temperature = sequence["ids"], sequence["places"], sequence["advantages"], sequence["temperature"]
    now = [logprob(weights, ids, place, temperature) for place in places]
    mean = sum(a - b for a, b in zip(now, sequence["before"])) / len(places)
    for at, place in enumerate(places):
        advantage, probabilities = advantages[at], distribution(weights, ids, place, temperature)
        figures.entropy -= sum(p * math.log(p) for p in probabilities)
        if kind == "cross_entropy":
            loss, slope = -advantage * now[at], -advantage
        else:
            weight = min(math.exp(sequence["before"][at] - sequence["recorded"][at]), settings["importanceCap"])
            # The geometric mean of a sequence has the gradient of each token's own ratio, times the mean.
            ratio = math.exp(mean if settings["loss"] == "gspo" else now[at] - sequence["before"][at])
            kept = bounded(ratio, settings)
            if settings["loss"] == "cispo":
                loss, slope = -weight * kept * advantage * now[at], -weight * kept * advantage
                figures.clipped += kept != ratio
            else:
                loss = -weight * min(ratio * advantage, kept * advantage)
                is_clipped = kept * advantage < ratio * advantage
                slope = 0.0 if is_clipped else -weight * ratio * advantage
                figures.clipped += is_clipped
        if settings["kl"]:
            gap = logprob(FIRST, ids, place, temperature) - now[at]
            loss += settings["kl"] * (math.exp(gap) - gap - 1)
            slope += settings["kl"] * (1 - math.exp(gap))
            figures.kl += math.exp(gap) - gap - 1
        scale = share["token"](len(places))
        figures.loss += loss * scale
        add_gradient(gradient, ids, place, temperature, probabilities, slope * scale * share["minibatches"])


def token_share(kind, settings, sequences):
    """What each token of a sequence of that length counts."""
    tokens = sum(len(sequence["places"]) for sequence in sequences)
    if kind == "policy_gradient" and settings["loss"] in ("grpo", "gspo"):
        return lambda own: 1 / (len(sequences) * own)
    if kind == "policy_gradient" and settings["loss"] == "dr_grpo":
        return lambda own: 1 / (len(sequences) * settings["longestAnswer"])
    return lambda own: 1 / tokens


class AdamW:
    def __init__(self):
        self.first = [[0.0] * (2 * V) for _ in range(V)]
        self.second = [[0.0] * (2 * V) for _ in range(V)]
        self.count = 0

    def step(self, weights, gradient, settings):
        self.count += 1
        rate = settings["learningRate"]
        for row in range(V):
            for at in range(2 * V):
                slope = gradient[row][at]
                self.first[row][at] = 0.9 * self.first[row][at] + 0.1 * slope
                self.second[row][at] = 0.999 * self.second[row][at] + 0.001 * slope * slope
                first = self.first[row][at] / (1 - 0.9**self.count)
                second = self.second[row][at] / (1 - 0.999**self.count)
                weights[row][at] -= rate * settings["weightDecay"] * weights[row][at]
                weights[row][at] -= rate * first / (math.sqrt(second) + 1e-8)


def update(weights, optimizer, kind, settings, sequences):
    figures, count = Figures(), settings["minibatches"]
    tokens = sum(len(sequence["places"]) for sequence in sequences)
    drifts = [abs(a - b) for s in sequences for a, b in zip(s["answered"], s["recorded"])]
    chance, order = random.Random(settings["seed"]), list(sequences)
    for _ in range(settings["epochs"]):
        chance.shuffle(order)
        for part in range(count):
            gradient = [[0.0] * (2 * V) for _ in range(V)]
            share = {"token": token_share(kind, settings, sequences), "minibatches": count}
            for sequence in order[part::count]:
                sequence_gradient(weights, sequence, kind, settings, share, gradient, figures)
            norm = math.sqrt(sum(slope * slope for row in gradient for slope in row))
            if norm > settings["maxGradNorm"]:
                gradient = [[slope * settings["maxGradNorm"] / norm for slope in row] for row in gradient]
            optimizer.step(weights, gradient, settings)
            figures.norm += norm
            figures.steps += 1
    seen = settings["epochs"] * tokens
    is_gradient = kind == "policy_gradient"
    figures = {
        "loss": figures.loss / settings["epochs"], "driftMean": sum(drifts) / tokens if is_gradient else None,
        "driftMax": max(drifts) if is_gradient else None, "entropy": figures.entropy / seen, "clipFraction": figures.clipped / seen,
        "kl": figures.kl / seen, "gradNorm": figures.norm / figures.steps, "tokens": tokens, "sequences": len(sequences)}
    return {name: round(figure, 9) if isinstance(figure, float) else figure for name, figure in figures.items()}


def main():
    weights, optimizer, written = [list(row) for row in FIRST], AdamW(), []
    earlier = weights
    for version, (name, kind, own) in enumerate(UPDATES):
        settings, sequences, sent = {**DEFAULTS, **own}, [], []
        for number, (ids, places, advantages, temperature, offsets) in enumerate(SEQUENCES):
            before = [logprob(weights, ids, place, temperature) for place in places]
            is_stale = name in STALE and number % 2 == 1
            answered = [logprob(earlier, ids, place, temperature) for place in places] if is_stale else before
            recorded = [round(value + offset, 4) for value, offset in zip(answered, offsets)]
            sequences.append({"ids": ids, "places": places, "advantages": advantages, "temperature": temperature, "before": before,
                              "answered": answered, "recorded": recorded})

            def by_place(values):
                return [values[places.index(place)] if place in places else 0 for place in range(len(ids))]

            sent.append({"ids": ids, "mask": by_place([1] * len(places)), "logprobs": by_place(recorded),
                         "advantages": by_place(advantages), "temperature": temperature,
                         **({"policyVersion": version - 1, "newestVersion": version - 1} if is_stale else {})})
        earlier = [list(row) for row in weights]
        figures = update(weights, optimizer, kind, settings, sequences)
        written.append({"name": name, "loss": kind, "settings": settings, "sequences": sent, "figures": figures,
                        "weights": [[round(weight, 9) for weight in row] for row in weights]})
    text = "".join(json.dumps(one) + "\n" for one in written)
    if "--check" not in sys.argv:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        raise SystemExit(f"{FILE} is not what {Path(__file__).name} writes.")


if __name__ == "__main__":
    main()
