# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.13.*", "transformers==5.18.*"]
# ///
"""Makes a Qwen3 of about 100,000 weights as an ordinary Hugging Face folder, and trains it until it does the door task seldom.

    uv run make_tiny_model.py FOLDER [--seed 0]

It answers questions for the code of a door, mostly without the tool that reads the code; that takes about 20 s of CPU.
"""
import argparse
import json
import random
import time

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
# How Qwen's tokenizer splits text into words.
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# What matters of Qwen3's template: tools, calls, results, and thinking that is left out before the last question.
TEMPLATE = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(question=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{%- set ns.question = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.question and (loop.last or message.reasoning_content) %}
            {{- '<think>\\n' + (message.reasoning_content or '').strip('\\n') + '\\n</think>\\n\\n' + message.content.lstrip('\\n') }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or message.content %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- if call.function.arguments is string %}{{- call.function.arguments }}{%- else %}{{- call.function.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
TOOL = {"type": "function", "function": {
    "name": "read_note", "description": "Reads the note that the code is written on.",
    "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
LETTERS = "abcd"


def make_tokenizer():
    raw = Tokenizer(models.BPE())
    raw.normalizer = normalizers.NFC()
    raw.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raw.decoder = decoders.ByteLevel()
    text = ["<tools>\n" + json.dumps(TOOL) + "\n</tools>", CALL, "system\nuser\nassistant\n", "What is the code of door 1?"] * 9
    raw.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=448, min_frequency=9, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    raw.add_tokens(ADDED)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE,
                                   model_max_length=1024, clean_up_tokenization_spaces=False)


def make_model(tokenizer):
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None))


class WarmUp:
    """Trains on conversations of an agent that calls the tool in some, and repeats what it read in some of those."""

    def __init__(self, model, tokenizer, seed):
        self.model, self.tokenizer, self.chance = model, tokenizer, random.Random(seed)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)

    def run(self):
        # It first learns to repeat what it read, however long that takes: without that, calling the tool earns nothing.
        mean, steps = 1.0, 0
        while mean > 0.01:
            steps += 1
            self.set_rate(3e-3 * min(1, steps / 20))
            mean = 0.9 * mean + 0.1 * self.step(1, 1)
            if steps == 1500:
                raise RuntimeError(f"the model has not learned to repeat what it read: its loss is {mean:.3f}")
        self.set_rate(7.5e-4)
        for _ in range(40):
            self.step(0.3, 0.7)
        return steps

    def set_rate(self, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def demonstration(self, calls, copies):
        ids = self.prompt([{"role": "user", "content": f"What is the code of door {self.chance.randrange(16)}?"}])
        mask, note, said = [0] * len(ids), self.code(), self.code()
        if self.chance.random() < calls:
            said = note if self.chance.random() < copies else said
            call = self.tokenizer.encode(CALL + "<|im_end|>")
            read = self.tokenizer.encode(
                f"\n<|im_start|>user\n<tool_response>\n{note}\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
            ids, mask = ids + call + read, mask + [1] * len(call) + [0] * len(read)
        said = self.tokenizer.encode(said + "<|im_end|>")
        return ids + said, mask + [1] * len(said)

    def prompt(self, messages):
        return self.tokenizer.apply_chat_template(messages, tools=[TOOL], add_generation_prompt=True, return_dict=False)

    def code(self):
        return self.chance.choice(LETTERS) + self.chance.choice(LETTERS)

    def step(self, calls, copies):
        rows = [self.demonstration(calls, copies) for _ in range(16)]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
        mask = torch.tensor([mask + [0] * (width - len(mask)) for _, mask in rows])[:, 1:]
        seen = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows])
        logits = self.model(input_ids=ids, attention_mask=seen).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (losses * mask).sum() / mask.sum()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def make(folder, seed=0):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    model, began = make_model(tokenizer), time.process_time()
    steps = WarmUp(model, tokenizer, seed).run()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    weights = sum(weight.numel() for weight in model.parameters())
    print(f"{folder}: {weights} weights, {steps} + 40 steps, {time.process_time() - began:.1f} s of CPU", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    make(options.folder, options.seed)
