"""Updates of the weights."""
import contextlib
import math
import random
import time

import torch
from bodies import Problem
from torch.utils.checkpoint import checkpoint


class Sequence:
    """Token ids, and for those that were sampled (`at`) their logprobs and advantages. `scale` multiplies the loss of its tokens; `version`
    is that of the policy that sampled all of them, or None when several did."""

    def __init__(self, ids, mask, logprobs, advantages, temperature, scale, version=None):
        self.ids, self.temperature, self.scale, self.version = ids, temperature or 1.0, scale, version
        self.at = [at for at, trained in enumerate(mask) if trained]
        self.recorded = torch.tensor([logprobs[at] for at in self.at])
        self.advantages = torch.tensor([advantages[at] for at in self.at])
        self.start = self.reference = self.answered = None


class Trainer:
    """AdamW on the trained weights: clipped policy gradient, or cross-entropy.

    With `start` for the trainer's own logprobs before the update, a policy-gradient update minimizes
    -sum(scale * weight * min(ratio * advantage, clamp(ratio, 1 - clip_low, 1 + clip_high) * advantage)) + kl * KL to the
    weights of the start, where ratio = exp(logprob - start) and weight = min(exp(start - recorded), importance_cap). With `surrogate`
    "gspo" the ratio is the geometric mean over the sequence, whose gradient each token has (GSPO-token), with "cispo" the ratio,
    clamped to at most clip_high and at least 1 - clip_low, is a constant weight of advantage * logprob. Each pass shuffles the order that it finds; minibatch i of n has every n-th sequence, from i.
    """

    HEAD_TOKENS = 1024  # the number of tokens whose logits are in memory at once

    def __init__(self, policy, learning_rate, micro_batch_tokens):
        self.policy, self.learning_rate, self.micro_batch_tokens = policy, learning_rate, micro_batch_tokens
        self.optimizer = torch.optim.AdamW(policy.trained.values(), lr=learning_rate, weight_decay=0.0)
        self.version, self.earlier = 0, None

    def logprobs(self, batch):
        """Logprob and entropy of each sampled token of these sequences, one after the other."""
        device = self.policy.device
        lengths = torch.tensor([len(s.ids) for s in batch], device=device)
        width = max(len(s.ids) for s in batch)
        ids = torch.tensor([s.ids + [0] * (width - len(s.ids)) for s in batch], device=device)
        rows = torch.tensor([row for row, s in enumerate(batch) for _ in s.at], device=device)
        at = torch.tensor([at for s in batch for at in s.at], device=device)
        temperature = torch.tensor([s.temperature for s in batch], device=device)[rows]
        hidden = self.policy.hidden(ids, lengths)[rows, at - 1]
        parts = zip(*(part.split(self.HEAD_TOKENS) for part in (hidden, ids[rows, at], temperature)))
        # With a large vocabulary logits would take most of the memory.
        scored = [checkpoint(self._score, *part, use_reentrant=False) if self.policy.recomputes else self._score(*part) for part in parts]
        return torch.cat([logprobs for logprobs, _ in scored]), torch.cat([entropy for _, entropy in scored])

    def _score(self, hidden, targets, temperature):
        logprobs = torch.log_softmax(self.policy.head(hidden).float() / temperature[:, None], -1)
        with torch.no_grad():
            entropy = torch.special.entr(logprobs.exp()).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropy

    def micro_batches(self, sequences):
        batch, border = [], self.policy.border
        for sequence in sorted((s for s in sequences if s.at), key=lambda s: -len(s.ids)):
            is_full = batch and len(batch[0].ids) * (len(batch) + 1) > self.micro_batch_tokens
            if is_full or (batch and len(batch[0].ids) > border >= len(sequence.ids)):
                yield batch
                batch = []
            batch.append(sequence)
        if batch:
            yield batch

    @torch.no_grad()
    def measure(self, sequences, name="start"):
        """Puts the own logprobs of the sampled tokens into each sequence."""
        for batch in self.micro_batches(sequences):
            values, _ = self.logprobs(batch)
            for sequence, part in zip(batch, values.split([len(s.at) for s in batch])):
                setattr(sequence, name, part)

    def update(self, loss, sequences, settings):
        began, sequences = time.monotonic(), [s for s in sequences if s.at]
        tokens = sum(len(s.at) for s in sequences)
        drift = None  # there is none in what was not sampled to be compared
        # In an update of one step, the pass that trains measures the logprobs of the start as well.
        is_one_step = settings.epochs * settings.minibatches == 1
        earlier = [s for s in sequences if self.earlier and s.version == self.version - 1] if loss == "policy_gradient" else []
        if earlier:
            with self._as_before():
                self.measure(earlier, "answered")
        if loss == "policy_gradient" and not is_one_step:
            self.measure(sequences)
            drift = self._checked_drift(sequences, settings.max_drift)
        if settings.kl:
            with self.policy.reference():
                self.measure(sequences, "reference")
        for group in self.optimizer.param_groups:
            group["lr"], group["weight_decay"] = settings.learning_rate, settings.weight_decay
        sums = dict.fromkeys(("loss", "entropy", "clip_fraction", "kl", "grad_norm"), 0.0)
        shuffled, order, steps = random.Random(settings.seed), list(sequences), 0
        before = None if is_one_step else self.state("cpu")
        # Adapters are small; a second copy of all weights is not.
        kept = self._copied(self.policy.trained, "cpu") if self.policy.has_adapters else None
        try:
            for _ in range(settings.epochs):
                shuffled.shuffle(order)
                parts = [part for part in (order[at :: settings.minibatches] for at in range(settings.minibatches)) if part]
                for part in parts:
                    for batch in self.micro_batches(part):
                        value, figures = self._loss(loss, batch, settings)
                        (value * len(parts)).backward()
                        for name, figure in figures.items():
                            sums[name] += float(figure)
                        sums["loss"] += float(value.detach())
                    if loss == "policy_gradient" and is_one_step:
                        drift = self._checked_drift(sequences, settings.max_drift)
                    norm = torch.nn.utils.clip_grad_norm_(self.policy.trained.values(), settings.max_grad_norm)
                    if not (math.isfinite(sums["loss"]) and bool(torch.isfinite(norm))):
                        raise Problem(409, "The loss or its gradient is not finite, so nothing was changed. Lower the learning rate, "
                                      "or look for extreme advantages.", "not_finite")
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    sums["grad_norm"] += float(norm)
                    steps += 1
        except BaseException:
            self.optimizer.zero_grad(set_to_none=True)
            if steps:
                self.restore(before)
            raise
        self.version, self.earlier = self.version + 1, kept
        per_token = {name: sums[name] / (settings.epochs * tokens) for name in ("entropy", "clip_fraction", "kl")}
        return {
            "version": self.version, "loss": sums["loss"] / settings.epochs, "drift_mean": None if drift is None else drift.mean().item(),
            "drift_max": None if drift is None else drift.max().item(), **per_token, "grad_norm": sums["grad_norm"] / steps, "tokens": tokens,
            "sequences": len(sequences), "seconds": round(time.monotonic() - began, 3)}

    def _loss(self, loss, batch, settings):
        """The loss of these sequences, and sums of figures."""
        logprobs, entropy = self.logprobs(batch)
        counts = [len(s.at) for s in batch]
        advantages = torch.cat([s.advantages for s in batch]).to(logprobs.device)
        scales = torch.cat([torch.full((len(s.at),), s.scale) for s in batch]).to(logprobs.device)
        figures = {"entropy": entropy.sum()}
        if loss == "cross_entropy":
            losses = -logprobs * advantages
        else:
            for sequence, part in zip(batch, logprobs.detach().split(counts)):
                sequence.start = part if sequence.start is None else sequence.start
            start = torch.cat([s.start for s in batch])
            recorded = torch.cat([s.recorded for s in batch]).to(logprobs.device)
            weight = (start - recorded).exp().clamp(max=settings.importance_cap)
            change = logprobs - start
            if settings.surrogate == "gspo":
                means = torch.cat([part.mean().expand(len(part)) for part in change.detach().split(counts)])
                change = means + logprobs - logprobs.detach()
            ratio = change.exp()
            # The limit of CISPO is that of the weight itself.
            most = settings.clip_high if settings.surrogate == "cispo" else 1 + settings.clip_high
            bounded = ratio.clamp(1 - settings.clip_low, most)
            free, clipped = ratio * advantages, bounded * advantages
            if settings.surrogate == "cispo":
                losses = -weight * clipped.detach() * logprobs
                figures["clip_fraction"] = (bounded != ratio).sum()
            else:
                losses = -weight * torch.min(free, clipped)
                figures["clip_fraction"] = (clipped < free).sum()
        if settings.kl:
            gap = torch.cat([s.reference for s in batch]) - logprobs
            penalty = gap.exp() - gap - 1
            losses = losses + settings.kl * penalty
            figures["kl"] = penalty.detach().sum()
        return (losses * scales).sum(), figures

    def _checked_drift(self, sequences, limit):
        # Between versions logprobs have to differ, so each answer is compared with the version that gave it, where that is still here.
        pairs = [(s.start if s.version == self.version else s.answered, s.recorded) for s in sequences]
        drift = [(own.cpu() - recorded).abs() for own, recorded in pairs if own is not None]
        if not drift:
            return None
        drift = torch.cat(drift)
        mean, most = drift.mean().item(), drift.max().item()
        if not math.isfinite(mean):
            raise Problem(409, "The model's logprobs are not finite, so nothing was changed. Load an earlier state.", "not_finite")
        if mean > limit:
            raise Problem(
                409, f"The trainer's logprobs of the sampled tokens differ from the recorded ones by {mean:.3g} on average "
                f"(at most {most:.3g}; the limit of the mean is {limit:g}), so nothing was changed. Usual causes: another chat "
                "template, temperature or precision, dropout, a mask that hides the wrong tokens, padding, or wrong token ids.",
                "drift", drift_mean=mean, drift_max=most)
        return drift

    @contextlib.contextmanager
    def _as_before(self):
        """The weights before the last update."""
        now = self._copied(self.policy.trained)
        try:
            self._put(self.earlier)
            yield
        finally:
            self._put(now)

    @torch.no_grad()
    def _put(self, weights):
        for name, weight in self.policy.trained.items():
            weight.copy_(weights[name])

    def _copied(self, value, device=None):
        if isinstance(value, torch.Tensor):
            return value.detach().to(device or value.device, copy=True)
        return {key: self._copied(part, device) for key, part in value.items()} if isinstance(value, dict) else value

    def state(self, device=None):
        moments = self.optimizer.state_dict()["state"]
        return self._copied({"version": self.version, "weights": self.policy.trained, "moments": moments}, device)

    def restore(self, state):
        weights = self.policy.trained
        shapes = [{name: tuple(w.shape) for name, w in some.items()} for some in (weights, state["weights"])]
        if shapes[0] != shapes[1]:
            raise Problem(400, "The saved weights belong to another model or another LoRA rank.", "wrong_model")
        self._put(state["weights"])
        self.earlier = None
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state["moments"]})
        self.version = state["version"]
