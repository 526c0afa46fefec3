"""Sampling by the learner itself."""
import contextlib
import itertools
import queue
import random
import socket
import threading
import time

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


class Turns:
    """A lock that tells its holder whether others wait for it."""

    def __init__(self):
        self.lock, self.counting, self.wanted = threading.Lock(), threading.Lock(), 0

    def __enter__(self):
        with self.counting:
            self.wanted += 1
        self.lock.acquire()
        with self.counting:
            self.wanted -= 1

    def __exit__(self, *_):
        self.lock.release()

    def locked(self):
        return self.lock.locked()


class Sampler(threading.Thread):
    """Samples at most `batch` answers at once, whose cache has at most `most_tokens`. An answer that ends frees its place, and a request
    that waits joins the others, unless somebody waits for the lock. With `exact` an answer depends on its request and the weights alone, to
    the last bit."""

    STRIDE = 64  # number of places whose logits are computed together to confirm an answer
    JOIN_EVERY = 4  # tokens: the prompts of those who join are computed together

    def __init__(self, policy, trainer, lock, batch, most_tokens, exact=False):
        super().__init__(daemon=True)
        self.policy, self.trainer, self.lock, self.batch, self.most_tokens = policy, trainer, lock, batch, most_tokens
        self.exact, self.confirmed, self.gap = exact, 0, 0.0
        self.queue, self.waiting, self.live = queue.Queue(), [], []
        self.start()

    def submit(self, request):
        self.queue.put(request)

    def run(self):
        while True:
            if not self.waiting:
                self.waiting.append(self.queue.get())
            try:
                with self.lock:
                    self.sample()
            except Exception as error:
                # Not those that ended just before it.
                for request in self.live:
                    if not request.done.is_set():
                        request.error = error
                        request.done.set()
            self.live = []
            while self.lock.wanted:
                time.sleep(0.001)

    @torch.no_grad()
    def sample(self):
        """Samples answers until nobody waits, or somebody waits for the lock."""
        logits = state = None
        for count in itertools.count():
            if not self.live or (count % self.JOIN_EVERY == 0 and not self.lock.wanted and self.policy.joins(state)):
                is_first, joining = not self.live, self._admitted()
                self.live += joining
                for request in joining:  # an answer that had to wait in its middle keeps the version that began it
                    request.version = self.trainer.version if request.version is None else request.version
                if joining:
                    more, other = self.policy.start([request.prompt + request.ids for request in joining])
                    logits, state = (more, other) if is_first else (torch.cat([logits, more]), self.policy.join(state, other))
            if not self.live:
                return
            tokens, chosen = self._drawn(logits)
            rows, parked = {}, []
            for row, (request, token, logprob) in enumerate(zip(self.live, tokens.tolist(), chosen.tolist())):
                request.ids.append(token)
                request.logprobs.append(logprob)
                request.finish = self._finish(request)
                if not (request.finish or request.cancelled):
                    rows[request] = row
                elif self.exact and not request.cancelled and not self._confirm(request):
                    parked.append(request)
                else:
                    request.done.set()
            self.live, more = self._fitting(list(rows))
            self.waiting = parked + more + self.waiting
            if self.live:
                rows = torch.tensor([rows[request] for request in self.live], device=self.policy.device)
                logits, state = self.policy.step(state, rows, tokens[rows])
            elif self.lock.wanted:
                return

    def _drawn(self, logits):
        """A token for each answer, and its logprob."""
        temperature = torch.tensor([request.temperature or 1.0 for request in self.live], device=self.policy.device)
        logprobs = torch.log_softmax(logits.float() / temperature[:, None], -1)
        draws = torch.tensor([request.draw() for request in self.live], dtype=torch.float64)
        greedy = torch.tensor([request.temperature == 0 for request in self.live], device=self.policy.device)
        tokens = torch.where(greedy, logprobs.argmax(-1), _pick(logprobs, draws))
        return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]

    def _admitted(self):
        """Those who waited and have a place now, and room for some tokens."""
        arrived = []
        with contextlib.suppress(queue.Empty):
            while len(arrived) < 8 * self.batch:
                # Others may come with the first one.
                arrived.append(self.queue.get_nowait() if self.live else self.queue.get(timeout=0.005))
        self.waiting += sorted(arrived, key=lambda request: len(request.prompt))
        self.waiting = [request for request in self.waiting if not request.cancelled]
        fitting, _ = self._fitting(self.live + self.waiting, spare=32)
        admitted = fitting[len(self.live) :]
        self.waiting = self.waiting[len(admitted) :]
        return admitted

    def _fitting(self, requests, spare=1):
        """The first ones, as many as there are places and room in the cache, and the others. One always fits."""
        width, count = 0, 0
        for request in requests[: self.batch]:
            width = max(width, len(request.prompt) + len(request.ids) + spare)
            if count and (count + 1) * width > self.most_tokens:
                break
            count += 1
        return requests[:count], requests[count:]

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

    def _finish(self, request):
        if request.ids[-1] in self.policy.end_ids:
            return "stop"
        if request.stop:
            text = self.policy.decode(request.ids)
            if any(stop in text for stop in request.stop):
                return "stop"
        return "length" if len(request.ids) >= request.most else None


def _pick(logprobs, draws):
    """One token of each row: the first whose cumulated probability exceeds the draw. The blocks of tokens come first: cumulated sums in
    double precision are slow."""
    wide, size = torch.float32 if logprobs.device.type == "mps" else torch.float64, 256
    blocks = torch.nn.functional.pad(logprobs.exp(), (0, -logprobs.shape[1] % size)).unflatten(1, (-1, size))
    sums = blocks.sum(-1).to(wide).cumsum(-1)
    # Before the search: it finds places beyond the last token, which end the process on a GPU.
    if not bool(torch.isfinite(sums[:, -1]).all()):
        raise Problem(500, "The model's logits are not finite: its weights are broken. Load an earlier state.", "not_finite")
    draws = draws.to(logprobs.device, wide)[:, None] * sums[:, -1:]
    block = _first_above(sums, draws)
    ends = torch.nn.functional.pad(sums, (1, 0)).gather(1, torch.cat([block, block + 1], 1))
    inside = blocks[torch.arange(len(blocks), device=blocks.device), block[:, 0]].to(wide).cumsum(-1)
    share = (draws - ends[:, :1]) / (ends[:, 1:] - ends[:, :1])
    return (block * size + _first_above(inside, share * inside[:, -1:]))[:, 0]


def _first_above(sums, draws):
    """The place of the first sum above the draw of its row, which rounding can have made the last sum itself."""
    draws = torch.minimum(draws, sums[:, -1:] * (1 - torch.finfo(sums.dtype).eps))
    return torch.searchsorted(sums, draws, right=True)
