"""How much memory a training needs."""
import contextlib
import ctypes
import os
import re
from pathlib import Path

import torch
from training import Trainer
from vllm_server import vllm_program


def memory(policy, options):
    """An estimate of the bytes that are needed, what is free now, the fraction of the GPU that vLLM gets (0: it does not sample), and whether
    updates compute layers again to save memory, which takes a third of their time."""
    weights = sum(w.numel() * w.element_size() for w in policy.module.parameters())
    optimizer = 3 * sum(w.numel() * w.element_size() for w in policy.trained.values())  # two moments and the gradient
    tokens, logits = options.micro_batch_tokens, 4 * 4 * policy.vocabulary_size
    activations = tokens * policy.activation_bytes + Trainer.HEAD_TOKENS * logits
    kept = tokens * (policy.kept_bytes + logits)
    free, total = free_memory(policy.device)
    share = vllm_share(policy, options, weights, (free - weights - optimizer - activations) / total - 0.05)
    recomputes = share > 0 or weights + optimizer + kept > free // 2
    activations = activations if recomputes else kept
    # Beside the weights the sampler's cache takes half of what is free, but room for one conversation. vLLM takes its share for good.
    one = policy.max_length * policy.cache_bytes
    cache = int(share * total) or max(one, min(options.batch * one, (free - weights - optimizer) // 2))
    needed = weights + optimizer + (activations + cache if share else max(activations, cache))
    return {"weights": weights, "optimizer": optimizer, "activations": activations, "cache": cache, "needed": needed, "free": free}, share, recomputes


def conversations(policy, options, cache):
    """How many conversations of the maximum length are sampled at once."""
    one = policy.max_length * policy.cache_bytes
    return min(options.batch, max(1, cache // one)) if one else options.batch


def share_one_heap():
    """By default glibc gives threads heaps of their own, which do not give back what was freed. Each request has a new thread: updates
    would take the memory of several."""
    _glibc("mallopt", -8, 1)  # M_ARENA_MAX


def return_freed_memory():
    """Memory that was freed between live objects stays with the process otherwise, and the next tensors seldom fit there."""
    _glibc("malloc_trim", 0)


def _glibc(function, *arguments):
    with contextlib.suppress(OSError, AttributeError):  # other systems lack it
        getattr(ctypes.CDLL(None), function)(*arguments)


def vllm_share(policy, options, weights, left):
    wanted = policy.device.type == "cuda" and options.lora_rank > 0 and vllm_program() and left * free_memory(policy.device)[1] > 1.3 * weights
    return max(0.05, min(left, 0.9)) if options.sampler == "vllm" or (options.sampler == "auto" and wanted and not options.exact) else 0


def free_memory(device):
    """Bytes that are free, and all."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info()
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError):
        return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]), total
    return total, total
