"""The model."""
from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import threading
import traceback
from pathlib import Path

import torch
from bodies import out_of_memory
from bounded import TooMuch, bounded
from described_tools import HEAD, with_tools
from probe import fail


class Policy:
    """A causal language model with its tokenizer and chat template. Subclass it for another kind of model (`--policy-class`), with

    - `render(messages, tools, answer, **settings)`: the conversation as text; with `answer`, up to where the model's answer begins
    - `encode(text)` and `decode(ids)`
    - `hidden(ids, lengths)`: last hidden states [rows, width, size] of right-padded rows. The mask comes from the lengths, because the
      padding id can be sampled. `head(hidden)` makes logits of them.
    - `start(prompts)`: logits [rows, vocabulary] after each prompt, and a state for `step`
    - `step(state, rows, tokens)`: both after one more token for each of these rows of the state; the other rows have ended
    - `joins(state)` and `join(state, other)`: whether the rows of two states can be one state, and that state. Where they cannot, those who
      wait begin when all rows have ended.
    - `reference()`: a context in which `hidden` and `head` use the weights of the start
    - `export(folder, merged)`: writes the model for other programs; with `merged` as a whole, where it would be an adapter
    """

    name: str
    revision = None  # the commit of a model on the hub
    module: torch.nn.Module
    device = torch.device("cpu")
    dtype = torch.float32
    max_length: int  # tokens of a prompt and its answer
    longest = 0  # of a sequence in an update, where that is more
    border = sys.maxsize  # tokens; longer sequences have other positions, and so other logprobs, which no batch may mix
    waits = False  # whether those who wait begin when all rows have ended, whatever `joins` would say later
    vocabulary_size: int
    end_ids: set[int]  # each of them ends an answer
    template: str  # its text says how the model calls tools
    describes_tools = False  # the model's own template lacks tools, so ours describes them
    has_adapters = False  # whether what is trained is so small that a copy costs nothing
    activation_bytes = 0  # per trained token, for the estimate of memory, where the backward pass computes each layer again …
    kept_bytes = 0  # … and where it keeps what each computed
    recomputes = True  # whether it computes again
    cache_bytes = 0  # per token that is sampled, with its prompt

    def joins(self, state):
        return False

    @property
    def trained(self):
        return {name: weight for name, weight in self.module.named_parameters() if weight.requires_grad}


class TransformersPolicy(Policy):
    """A model of a folder or of the Hugging Face hub; trains LoRA weights, or all weights where the rank is 0."""

    def __init__(self, options, weights=True):
        folder = Path(options.model)
        self.name = str(folder.resolve()) if folder.is_dir() else options.model
        if not folder.is_dir():
            go_offline_without_hub()
        import transformers
        from peft import LoraConfig, get_peft_model

        self.device = torch.device(pick_device(options.device))
        self.lora = self.has_adapters = options.lora_rank > 0
        # Small updates are lost when bfloat16 weights are trained themselves, and most of its answers would be drawn again by a seed.
        auto = "bfloat16" if self.device.type == "cuda" and self.lora and not options.exact else "float32"
        self.dtype = getattr(torch, auto if options.dtype == "auto" else options.dtype)
        try:
            config = transformers.AutoConfig.from_pretrained(self.name)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.name)
            self.causal = self._load(config, weights)
        except Exception as error:
            if out_of_memory(error):
                raise
            traceback.print_exc()  # for the log
            said = "".join(str(error).splitlines()[:1])
            fail(f"cannot load the model {options.model} ({type(error).__name__}: {said}). If it is whole, this version of transformers does not "
                 "know it. Else download it into a folder and pass that: uvx --from huggingface_hub hf download <its name> --local-dir <folder>")
        self.revision = getattr(config, "_commit_hash", None)
        self.tokenizing = threading.Lock()
        self.template = self.tokenizer.get_chat_template()
        self.describes_tools = "tools" not in self.template
        if self.describes_tools:
            self.template = self.tokenizer.chat_template = with_tools(self.template, self._lacks_system())
        torch.manual_seed(options.seed)
        self.module = self.causal
        if self.lora:
            targets = options.lora_targets
            lora = LoraConfig(r=options.lora_rank, lora_alpha=2 * options.lora_rank, lora_dropout=0.0, task_type="CAUSAL_LM",
                              target_modules=targets if targets == "all-linear" else targets.split(","))
            try:
                self.module = get_peft_model(self.causal, lora)
            except ValueError as error:
                names = sorted({name.split(".")[-1] for name, part in self.causal.named_modules() if isinstance(part, torch.nn.Linear)})
                fail(f"training.lora_targets is {targets}, and the model has no such layers. It has {', '.join(names)}. ({error})")
        self.module.eval()  # no dropout, in training neither: sampled and trained logprobs must agree
        if weights:
            self.module.to(self.device)

        self.config = config.get_text_config()
        self.longest = getattr(self.config, "max_position_embeddings", options.max_length)
        self.border = _longrope_border(self.config)
        # An answer that crosses the border would have been sampled with both kinds of positions.
        self.max_length = min(options.max_length, self.longest, self.border)
        try:
            self.waits = not all(map(_is_joinable, transformers.DynamicCache(config=self.config).layers))
        except Exception:
            self.waits = True  # it has a cache of its own
        self.vocabulary_size = self.config.vocab_size
        self.end_ids = self._find_end_ids()
        size, layers = self.config.hidden_size, self.config.num_hidden_layers
        heads = self.config.num_attention_heads
        head_size = getattr(self.config, "head_dim", None) or size // heads
        width = torch.finfo(self.dtype).bits // 8
        self.cache_bytes = 2 * layers * (getattr(self.config, "num_key_value_heads", None) or heads) * head_size * width
        # The input of each layer, and what one layer computes (measured with Qwen3).
        inner = getattr(self.config, "intermediate_size", 4 * size)
        layer = (4 * size + 6 * heads * head_size + 4 * inner) * 4
        # The heap of a CPU breaks into pieces: it grows as if each layer kept what it computed, or twice that where it does (measured with
        # SmolLM2).
        self.kept_bytes = (layers + 1) * layer * (2 if self.device.type == "cpu" else 1)
        self.activation_bytes = layers * (layer if self.device.type == "cpu" else size * width) + layer
        self.start_model, self.layers = None, []
        if self.causal.supports_gradient_checkpointing:
            self.causal.gradient_checkpointing_enable({"use_reentrant": False})
            self.layers = [m for m in self.causal.modules() if isinstance(m, transformers.modeling_layers.GradientCheckpointingLayer)]

    def _load(self, config, weights):
        import transformers

        if weights:
            return transformers.AutoModelForCausalLM.from_pretrained(self.name, dtype=self.dtype)
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config, dtype=self.dtype)

    def _find_end_ids(self):
        configured = [self.tokenizer.eos_token_id, getattr(self.causal.generation_config, "eos_token_id", None)]
        ids = {i for some in configured for i in (some if isinstance(some, list) else [some]) if i is not None}
        # What the template writes after an answer ends it, too: for some models another token than the configured one.
        try:
            text = self.render([{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}], None, False)
        except TooMuch as error:
            fail(f"the chat template of {self.name} cannot be used: {error}.")
        if "question" not in text or "answer" not in text:
            fail(f"the chat template of {self.name} leaves out messages that are text: it is made for messages of parts, such as images.")
        after = self.encode(text.rsplit("answer", 1)[1])
        return ids | {i for i in after[:1] if i in self.tokenizer.added_tokens_decoder}

    def _lacks_system(self):
        """Some templates refuse system messages, and some leave them out."""
        try:
            return "rules" not in self.render([{"role": "system", "content": "rules"}, {"role": "user", "content": "question"}], None, True)
        except Exception:
            return True

    def render(self, messages, tools, answer, **settings):
        messages = [dict(message, **_with_objects(message)) for message in messages]
        with self.tokenizing:
            text = bounded(lambda: self.tokenizer.apply_chat_template(
                messages, tools=tools or None, add_generation_prompt=answer, tokenize=False, **settings))
        if self.describes_tools and tools and HEAD not in text:
            raise ValueError("it leaves out the message that describes the tools")
        return text

    def encode(self, text):
        with self.tokenizing:
            return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids):
        with self.tokenizing:
            return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def hidden(self, ids, lengths):
        mask = torch.arange(ids.shape[1], device=ids.device)[None] < lengths[:, None]
        # Layers in training mode are computed again by the backward pass. They alone are in it, so that dropout stays off.
        self._train_layers(self.recomputes and torch.is_grad_enabled())
        try:
            return self.causal.base_model(input_ids=ids, attention_mask=mask.long(), use_cache=False).last_hidden_state
        finally:
            self._train_layers(False)

    def _train_layers(self, on):
        for layer in self.layers:
            layer.training = on

    def head(self, hidden):
        # What some families do to their logits (Granite, Cohere, Gemma 2). A family that is missing here fails the drift check.
        logits = self.causal.get_output_embeddings()(hidden)
        logits = logits / getattr(self.config, "logits_scaling", 1) * getattr(self.config, "logit_scale", 1)
        cap = getattr(self.config, "final_logit_softcapping", None)
        return torch.tanh(logits / cap) * cap if cap else logits

    def start(self, prompts):
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts], device=self.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.device)
        return self._sampling_step(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), None, [len(prompt) for prompt in prompts])

    def step(self, state, rows, tokens):
        cache, mask, position, lengths = state
        if len(rows) < len(mask):
            cache.reorder_cache(rows)
        lengths = [lengths[row] for row in rows.tolist()]
        mask = self._without_padding(cache, mask[rows], mask.shape[1] - max(lengths))
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
        return self._sampling_step(tokens[:, None], mask, position[rows] + 1, cache, [length + 1 for length in lengths])

    def _sampling_step(self, ids, mask, positions, cache, lengths):
        out = self.module(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache,
                          use_cache=True, logits_to_keep=1)
        return out.logits[:, -1], (out.past_key_values, mask, positions[:, -1:], lengths)

    def joins(self, state):
        """Caches of windows and of linear attention have other shapes."""
        return all(map(_is_joinable, state[0].layers))

    def join(self, state, other):
        width = max(mask.shape[1] for _, mask, _, _ in (state, other))

        def wide(part, at):
            """With padding before its places, which dimension `at` counts from the end."""
            return torch.nn.functional.pad(part, (0, 0) * (at - 1) + (width - part.shape[-at], 0))

        for layer, more in zip(state[0].layers, other[0].layers):
            layer.keys = torch.cat([wide(layer.keys, 2), wide(more.keys, 2)])
            layer.values = torch.cat([wide(layer.values, 2), wide(more.values, 2)])
        mask = torch.cat([wide(state[1], 1), wide(other[1], 1)])
        return state[0], mask, torch.cat([state[2], other[2]]), state[3] + other[3]

    def _without_padding(self, cache, mask, unused):
        """A long conversation that has ended leaves padding before the others."""
        if unused < 64 or not self.joins((cache,)):
            return mask
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[..., unused:, :], layer.values[..., unused:, :]
        return mask[:, unused:]

    @contextlib.contextmanager
    def reference(self):
        if self.lora:
            with self.module.disable_adapter():
                yield
            return
        if self.start_model is None:
            self.start_model = self._load(self.causal.config, True).to(self.device).eval().requires_grad_(False)
        trained, self.causal = self.causal, self.start_model
        try:
            yield
        finally:
            self.causal = trained

    def export(self, folder, merged=False):
        if merged and self.lora:
            self._save_merged(folder)
        else:
            self.module.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @torch.no_grad()
    def _save_merged(self, folder):
        """The device has one merged layer at a time. The weights in use stay as they are."""
        layers = {name: layer for name, layer in self.causal.named_modules() if hasattr(layer, "get_delta_weight")}
        state = {name.replace(".base_layer.", "."): weight for name, weight in self.causal.state_dict().items() if ".lora_" not in name}
        for name, layer in layers.items():
            weight = layer.get_base_layer().weight
            state[f"{name}.weight"] = (weight.float() + layer.get_delta_weight("default").float()).to(weight.dtype).cpu()
        self.causal.save_pretrained(folder, state_dict=state)
        # A shared matrix of input and output becomes two when one of them had an adapter.
        if self.causal.config.tie_word_embeddings and {self.causal.get_input_embeddings(), self.causal.get_output_embeddings()} & {*layers.values()}:
            config = copy.deepcopy(self.causal.config)
            config.tie_word_embeddings = False
            config.save_pretrained(folder)


def _is_joinable(layer):
    return type(layer).__name__ == "DynamicLayer"


def _longrope_border(config):
    """Up to how many tokens a model with longrope (Phi-3.5, Phi-4-mini) has its short factors. It chooses those of a whole pass."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [kind for kind in (rope, *rope.values()) if isinstance(kind, dict)]
    borders = [kind.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
               for kind in kinds if "longrope" in (kind.get("rope_type"), kind.get("type"))]
    return min(filter(None, borders), default=sys.maxsize)


def _with_objects(message):
    """Templates expect the arguments of calls as objects."""
    calls = []
    for call in message.get("tool_calls") or []:
        function = dict(call["function"])
        with contextlib.suppress(ValueError, TypeError):
            function["arguments"] = json.loads(function["arguments"])
        calls.append({**call, "function": function})
    return {"tool_calls": calls} if calls else {}


def go_offline_without_hub():
    """The hub's client tries for minutes to reach it. Models that were downloaded before need no connection."""
    import huggingface_hub

    try:
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=5)
    except Exception:
        huggingface_hub.constants.HF_HUB_OFFLINE = True


def pick_device(wanted):
    if wanted == "cuda" and not torch.cuda.is_available():
        fail("--device cuda: PyTorch finds no GPU here. See whether nvidia-smi does, or leave --device out.")
    if wanted == "mps" and not torch.backends.mps.is_available():
        fail("--device mps: PyTorch finds no GPU of Apple here. Leave --device out.")
    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
