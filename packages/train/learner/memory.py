"""How much memory a training needs."""
import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from training import Trainer
from vllm_server import vllm_program


@dataclass(frozen=True)
class MemoryPlan:
    """`needs`: an estimate of the bytes that are needed, by what needs them, and what is free now. `vllm_share`: the fraction of the device's
    memory that vLLM gets (0: it does not sample). `cache`: bytes for the conversations that are sampled, and how many of the maximum length
    that is. `recomputes`: whether updates compute layers again to save memory, which takes a third of their time."""

    needs: dict
    vllm_share: float
    cache: int
    conversations: int
    recomputes: bool


def plan_memory(policy, options):
    weights = sum(w.numel() * w.element_size() for w in policy.module.parameters())
    optimizer = 3 * sum(w.numel() * w.element_size() for w in policy.trained.values())  # two moments and the gradient
    tokens, logits = options.micro_batch_tokens, 4 * 4 * policy.vocabulary_size
    activations = tokens * policy.activation_bytes + Trainer.HEAD_TOKENS * logits
    kept = tokens * (policy.kept_bytes + logits)
    free, total = free_memory(policy.device)
    share = vllm_share(policy, options, weights, (free - weights - optimizer - activations) / total - 0.05)
    recomputes = share > 0 or weights + optimizer + kept > free // 2
    activations = activations if recomputes else kept
    # vLLM has weights of its own. It takes its share of a GPU for good; on a CPU it is told the size of its cache.
    others = weights + VLLM_BYTES if share else 0
    # Beside the weights the sampler's cache takes half of what is free, but room for one conversation.
    one = policy.max_length * policy.cache_bytes
    cache = max(one, min(options.batch * one, (free - weights - optimizer - others) // 2))
    if share and policy.device.type == "cuda":
        cache, others = max(one, int(share * total) - weights), weights
    needed = weights + optimizer + (activations + cache + others if share else max(activations, cache))
    needs = {"weights": weights, "optimizer": optimizer, "activations": activations, "cache": cache + others, "needed": needed, "free": free}
    conversations = min(options.batch, max(1, cache // one)) if one else options.batch
    return MemoryPlan(needs, share, cache, conversations, recomputes)


# What `vllm serve` 0.32 takes on a CPU beside weights and cache: three processes with PyTorch.
VLLM_BYTES = 3_300_000_000


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
