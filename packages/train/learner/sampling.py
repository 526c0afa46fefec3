"""Sampling by the learner itself."""
import contextlib
import queue
import random
import socket
import threading

import torch
from bodies import Problem


class Request:
    def __init__(self, prompt, temperature, most, stop, seed):
        self.prompt, self.temperature, self.most, self.stop = prompt, temperature, most, stop
        self.random, self.draws = random.Random(seed), []
        self.ids, self.logprobs = [], []
        self.version = self.finish = self.error = self.socket = None
        self.cancelled = False
        self.done = threading.Event()

    def draw(self):
        """The number that decides the next token; the same whenever the token of that place is drawn again."""
        if len(self.draws) == len(self.ids):
            self.draws.append(self.random.random())
        return self.draws[len(self.ids)]

    def cancel(self):
        self.cancelled = True
        if self.socket:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


class Sampler(threading.Thread):
    """Samples the requests that arrive together, or while a batch runs, in batches of at most `batch` answers whose cache has at most
    `most_tokens`. With `exact` an answer depends on its request and the weights alone, to the last bit."""

    STRIDE = 64  # number of places whose logits are computed together to confirm an answer

    def __init__(self, policy, trainer, lock, batch, most_tokens, exact=False):
        super().__init__(daemon=True)
        self.policy, self.trainer, self.lock, self.batch, self.most_tokens = policy, trainer, lock, batch, most_tokens
        self.exact, self.confirmed, self.gap = exact, 0, 0.0
        self.queue = queue.Queue()
        self.start()

    def submit(self, request):
        self.queue.put(request)

    def run(self):
        while True:
            waiting = [self.queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(waiting) < 8 * self.batch:
                    waiting.append(self.queue.get(timeout=0.005))
            waiting.sort(key=lambda request: len(request.prompt))
            for at in range(0, len(waiting), self.batch):
                batch = [request for request in waiting[at : at + self.batch] if not request.cancelled]
                try:
                    with self.lock:
                        while batch:
                            batch = self.sample(batch)
                except Exception as error:
                    for request in batch:
                        if not request.done.is_set():
                            request.error = error
                            request.done.set()

    @torch.no_grad()
    def sample(self, live):
        """Samples answers to their ends. Returns the requests that found no room in the cache or whose end was not confirmed; they
        continue where they were."""
        live, parked = self._fitting(live, max(len(request.prompt) + len(request.ids) for request in live))
        logits, state = self.policy.start([request.prompt + request.ids for request in live])
        while True:
            temperature = torch.tensor([request.temperature or 1.0 for request in live], device=self.policy.device)
            logprobs = torch.log_softmax(logits.float() / temperature[:, None], -1)
            draws = torch.tensor([request.draw() for request in live], dtype=torch.float64)
            greedy = torch.tensor([request.temperature == 0 for request in live], device=self.policy.device)
            tokens = torch.where(greedy, logprobs.argmax(-1), _pick(logprobs, draws))
            chosen = logprobs.gather(-1, tokens[:, None])[:, 0]
            if not bool(torch.isfinite(chosen).all()):
                raise Problem(500, "The model's logits are not finite: its weights are broken. Load an earlier state.", "not_finite")
            rows = {}
            for row, (request, token, logprob) in enumerate(zip(live, tokens.tolist(), chosen.tolist())):
                request.ids.append(token)
                request.logprobs.append(logprob)
                request.finish = self._finish(request)
                if not (request.finish or request.cancelled):
                    rows[request] = row
                elif self.exact and not request.cancelled and not self._confirm(request):
                    parked.append(request)
                else:
                    request.version = self.trainer.version
                    request.done.set()
            live, more = self._fitting(list(rows), max((len(r.prompt) + len(r.ids) for r in rows), default=0))
            parked += more
            if not live:
                return parked
            rows = torch.tensor([rows[request] for request in live], device=self.policy.device)
            logits, state = self.policy.step(state, rows, tokens[rows])

    def _confirm(self, request):
        """Whether the answer has its end. The last digits of logits depend on the shape of the pass that computes them, and so on the other
        requests of the batch: a draw can fall on another token. Here each shape follows from the place of the token alone. The first token
        that is drawn otherwise replaces what was sampled from there on."""
        first, ids, hidden = len(request.prompt), request.prompt + request.ids, ()
        for at in range(first, len(ids)):
            row = (at - 1) % self.STRIDE
            if at > len(hidden):
                width = min(self.policy.max_length, max(self.STRIDE, 1 << (at - 1).bit_length()))
                padded = torch.tensor([(ids + [0] * width)[:width]], device=self.policy.device)
                hidden = self.policy.hidden(padded, torch.tensor([width], device=self.policy.device))[0]
            if row == 0 or at == first:
                start = at - 1 - row
                logits = self.policy.head(hidden[start : start + self.STRIDE]).float() / (request.temperature or 1.0)
                logprobs = torch.log_softmax(logits, -1)
                draws = torch.zeros(len(logprobs), dtype=torch.float64)
                known = torch.tensor(request.draws[at - first : at - first + len(logprobs) - row], dtype=torch.float64)
                draws[row : row + len(known)] = known
                drawn = (logprobs.argmax(-1) if request.temperature == 0 else _pick(logprobs, draws)).tolist()
            token, place = drawn[row], at - first
            self._compare(request.logprobs[place], float(logprobs[row, ids[at]]))
            request.logprobs[place] = float(logprobs[row, token])
            if token != ids[at]:
                request.ids[place:], request.logprobs[place + 1 :] = [token], []
                request.finish = self._finish(request)
                return request.finish is not None
        return True

    def _compare(self, sampled, own):
        """Answers that are drawn again hide from updates that sampling and training disagree about the model."""
        self.gap, self.confirmed = self.gap + abs(sampled - own), self.confirmed + 1
        if self.confirmed >= 500 and self.gap > 0.3 * self.confirmed:
            raise Problem(500, f"The logprobs of tokens while sampling differ by {self.gap / self.confirmed:.2g} on average from those of the "
                          "trainer, so this model cannot be trained with a seed.", "drift")

    def _fitting(self, requests, width):
        """Those that fit into the cache when the longest has this width, and the others."""
        fitting = max(1, self.most_tokens // (width + 1))
        return requests[:fitting], requests[fitting:]

    def _finish(self, request):
        if request.ids[-1] in self.policy.end_ids:
            return "stop"
        if request.stop:
            text = self.policy.decode(request.ids)
            if any(stop in text for stop in request.stop):
                return "stop"
        return "length" if len(request.ids) >= request.most else None


def _pick(logprobs, draws):
    """One token of each row: the first whose cumulated probability exceeds the draw."""
    wide = torch.float32 if logprobs.device.type == "mps" else torch.float64
    sums = logprobs.to(wide).exp().cumsum(-1)
    draws = draws.to(logprobs.device, wide)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, draws, right=True)[:, 0].clamp(max=sums.shape[1] - 1)
