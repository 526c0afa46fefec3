"""How much memory a training needs, and how updates and the sampler share it. All amounts are bytes."""
import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from training import Trainer
from vllm_server import vllm_program

# What `vllm serve` 0.32 takes on a CPU beside weights and cache: three processes with PyTorch.
VLLM_BYTES = 3_300_000_000


@dataclass(frozen=True)
class MemoryPlan:
    """`needs`: an estimate of the bytes that are needed, by what needs them, and what is free now. `vllm_share`: the fraction of the device's
    memory that vLLM gets (0: it does not sample). `cache`: bytes for the conversations that are sampled, and how many of the maximum length
    that is. `recomputes`: whether updates compute layers again to save memory, which takes a third of their time."""

    needs: dict[str, int]
    vllm_share: float
    cache: int
    conversations: int
    recomputes: bool


def plan_memory(policy, options) -> MemoryPlan:
    weights = _tensor_bytes(policy.module.parameters())
    optimizer = 3 * _tensor_bytes(policy.trained.values())  # two moments and the gradient
    tokens, logits = options.micro_batch_tokens, 4 * 4 * policy.vocabulary_size
    recomputed = tokens * policy.activation_bytes + Trainer.HEAD_TOKENS * logits
    kept = tokens * (policy.kept_bytes + logits)
    free, total = _free_memory(policy.device)

    share = 0
    if _samples_with_vllm(policy, options, weights, free - weights - optimizer - recomputed - 0.05 * total):
        share = max(0.05, min((free - weights - optimizer - recomputed) / total - 0.05, 0.9))
    recomputes = share > 0 or weights + optimizer + kept > free // 2
    activations = recomputed if recomputes else kept

    conversation = policy.max_length * policy.cache_bytes
    if share and policy.device.type == "cuda":
        # vLLM, with weights of its own, takes its share of a GPU for good.
        sampler = weights
        cache = max(conversation, int(share * total) - weights)
    else:
        # On a CPU vLLM is told the size of its cache: half of what is free, but room for one conversation, as without vLLM.
        sampler = weights + VLLM_BYTES if share else 0
        cache = max(conversation, min(options.batch * conversation, (free - weights - optimizer - sampler) // 2))
    # vLLM samples during updates, and else the two take turns.
    working = activations + cache + sampler if share else max(activations, cache)
    needs = {"weights": weights, "optimizer": optimizer, "activations": activations, "cache": cache + sampler,
             "needed": weights + optimizer + working, "free": free}
    conversations = min(options.batch, max(1, cache // conversation)) if conversation else options.batch
    return MemoryPlan(needs, share, cache, conversations, recomputes)


def _tensor_bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _samples_with_vllm(policy, options, weights: int, left: float) -> bool:
    """Whether it was asked for, or is worth it: a LoRA on a GPU with room for weights and a cache, where logprobs need not be exact."""
    if options.sampler != "auto":
        return options.sampler == "vllm"
    is_able = policy.device.type == "cuda" and options.lora_rank > 0 and not options.exact
    return is_able and bool(vllm_program()) and left > 1.3 * weights


def _free_memory(device: torch.device) -> tuple[int, int]:
    """What is free, and all."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info()
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory(), torch.mps.recommended_max_memory()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError):
        return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]), total
    return total, total
