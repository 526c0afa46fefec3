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
        self.random = random.Random(seed)
        self.ids, self.logprobs = [], []
        self.version = self.finish = self.error = self.socket = None
        self.cancelled = False
        self.done = threading.Event()

    def cancel(self):
        self.cancelled = True
        if self.socket:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


class Sampler(threading.Thread):
    """Samples the requests that arrive together, or while a batch runs, in batches of at most `batch` answers whose cache has at most
    `most_tokens`."""

    def __init__(self, policy, trainer, lock, batch, most_tokens):
        super().__init__(daemon=True)
        self.policy, self.trainer, self.lock, self.batch, self.most_tokens = policy, trainer, lock, batch, most_tokens
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
        """Samples answers to their ends. Returns the requests that found no room in the cache; they continue where they were."""
        live, parked = self._fitting(live, max(len(request.prompt) + len(request.ids) for request in live))
        logits, state = self.policy.start([request.prompt + request.ids for request in live])
        while True:
            temperature = torch.tensor([request.temperature or 1.0 for request in live], device=self.policy.device)
            logprobs = torch.log_softmax(logits.float() / temperature[:, None], -1)
            draws = torch.tensor([request.random.random() for request in live], dtype=torch.float64)
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
                if request.finish or request.cancelled:
                    request.version = self.trainer.version
                    request.done.set()
                else:
                    rows[request] = row
            live, more = self._fitting(list(rows), max((len(r.prompt) + len(r.ids) for r in rows), default=0))
            parked += more
            if not live:
                return parked
            rows = torch.tensor([rows[request] for request in live], device=self.policy.device)
            logits, state = self.policy.step(state, rows, tokens[rows])

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
