"""Makes 200 conversations, and writes what transformers makes of them: python rendering_cases.py FOLDER

FOLDER/cases.json has the conversations as they are on the wire. For each chat template and each kind of tokenizer there is
a folder of a model in FOLDER, and `expected` in the file has the ids of `apply_chat_template`, or null where the template refuses
the conversation. The templates are those that TRL ships, and the one of make_tiny_model.py; the tokenizers are made on the spot.
"""
import importlib.util
import json
import random
import sys
from pathlib import Path

import jinja2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "create/templates/examples/doors"))
sys.path.insert(0, str(HERE.parents[1] / "learner"))
from described_tools import with_tools
from make_tiny_model import ADDED, SPECIAL, TEMPLATE, WORDS

TEMPLATES = Path(importlib.util.find_spec("trl").origin).parent / "chat_templates"
SHIPPED = ["qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_5_think", "qwen3_6", "nemotron_3_nano", "llama3_1", "llama3_2"]
# Templates that lack tools.
WITHOUT_TOOLS = ["llama3", "gemma", "gemma3", "phi3", "phi3_5", "cohere2", "deepseekv3", "deepseek_r1_distill"]
TOKENS = [*SPECIAL, *ADDED, "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"]

TEXTS = [
    "What is the code of door 1?", "Grüße, 你好 — naïve café 🚪🔑👩‍👩‍👧", "  two  spaces\tand tabs \n\n\n ", "\n\nlines before\n", " \n",
    "It's 12345.678 and I'll 'RE-do' it", "a\r\nb\rc", '{"x": 1}', "e\u0301 and \u00e9", "<|im_end|> inside, <tool_call>", "العربية हिन्दी ไทย",
    "x" * 70, "\u00a0no-break\u2028line\u200bzero\u00a0", 'const f = (a: number) => { return a ** 2 } // <b> & "q"', "ſ K İ ß", "१२३ ٣٤ 12",
    "\x1cseparators\x85", "back\\slash \\n {{ braces }} {% raw %}", "inside \ufeff a text", "\ufefffirst", "<think>\nmarked\n</think>\n\nsaid", "True, none"]
SCHEMAS = [
    {"type": "object", "properties": {}},
    {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Größe \"q\" <b> & 'a'", "enum": ["a", "b"]},
        "n": {"type": "integer", "minimum": 0, "default": 3}}},
    {"type": "object", "additionalProperties": False, "properties": {
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, "list": {"type": "array", "items": {"type": "number"}}}}]
ARGUMENTS = [
    {}, {"city": 'Zürich "x" \n 🚪', "n": 3}, {"list": [1, 2.5, -3, 0.001], "when": None, "deep": {"a": {"b": [True, False, None]}}},
    {"code": "if a < b && c > d: 'x'", "ok": True, "empty": ""}, {"when": None}, {"no": False, "n": -0.5}]
# What JSON.parse of JavaScript changes: see src/tinker/python-template.ts.
CHANGED = ['{"f": 1.0}', '{"f": 1e-7}', '{"n": 12345678901234567890}', '{"10": "a", "2": "b"}']


def conversation(chance):
    def text():
        return chance.choice(TEXTS)

    tools = [{"type": "function", "function": {
        "name": f"tool_{at}", "description": text(), "parameters": chance.choice(SCHEMAS)}} for at in range(chance.randrange(4))]
    messages = [{"role": "system", "content": text()}] if chance.random() < 0.3 else []
    for turn in range(chance.randint(1, 3)):
        messages.append({"role": "user", "content": [{"type": "text", "text": text()}] if chance.random() < 0.1 else text()})
        for step in range(chance.choice([0, 1, 1, 2]) if tools else 0):
            calls = [{"id": f"call{turn}{step}{at}", "type": "function", "function": {
                "name": chance.choice(tools)["function"]["name"],
                "arguments": json.dumps(chance.choice(ARGUMENTS), ensure_ascii=chance.random() < 0.5)}}
                for at in range(chance.choice([1, 1, 1, 2]))]
            messages.append({"role": "assistant", "content": chance.choice([None, "", text()]), **thinking(chance), "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": text()} for call in calls]
        messages.append({"role": "assistant", "content": text(), **thinking(chance)})
    if chance.random() < 0.7:
        messages.pop()
    return {"messages": messages, "tools": tools}


def thinking(chance):
    return {"reasoning_content": chance.choice(TEXTS)} if chance.random() < 0.3 else {}


def as_objects(message):
    """The message as transformers takes it: text that is one string, and arguments that are objects."""
    content = message["content"] or ""
    content = content if isinstance(content, str) else "".join(part["text"] for part in content)
    calls = [{**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
             for call in message.get("tool_calls", [])]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}


def make_tokenizer(kind):
    raw = Tokenizer(models.BPE(ignore_merges=kind == "llama"))
    if kind == "qwen":
        raw.normalizer = normalizers.NFC()
    words = WORDS.replace(r"\p{N}|", r"\p{N}{1,3}|") if kind == "llama" else WORDS
    raw.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(words), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raw.decoder = decoders.ByteLevel()
    corpus = [*TEXTS, json.dumps(SCHEMAS), *(file.read_text() for file in sorted(HERE.parents[3].glob("docs/**/*.md")))]
    raw.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=3000, special_tokens=TOKENS, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    bos, eos = ("<|begin_of_text|>", "<|eot_id|>") if kind == "llama" else (None, "<|im_end|>")
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=bos, eos_token=eos, pad_token="<|endoftext|>", clean_up_tokenization_spaces=False)


def main(folder):
    chance = random.Random(5)
    cases = [conversation(chance) for _ in range(200)]
    call = {"id": "call", "type": "function"}
    changed = [
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [
            {**call, "function": {"name": "tool_0", "arguments": arguments}}]}], "tools": []} for arguments in CHANGED]
    templates = {name: (TEMPLATES / f"{name}.jinja").read_text() for name in [*SHIPPED, *WITHOUT_TOOLS]}
    templates["llama_ignoring"] = templates["llama3"].replace("in loop_messages", "in loop_messages if message['role'] != 'system'")
    expected = {}
    for kind in ("qwen", "llama"):
        tokenizer = make_tokenizer(kind)
        for name, template in {**templates, "own": TEMPLATE}.items():
            if name != "own" and (name.startswith("llama") or name in WITHOUT_TOOLS) != (kind == "llama"):
                continue
            tokenizer.chat_template = template
            tokenizer.save_pretrained(folder / f"{name}-{kind}")
            if name in WITHOUT_TOOLS or name == "llama_ignoring":
                tokenizer.chat_template = with_tools(template, name in ("gemma", "llama_ignoring"))
                for case in cases:
                    assert_complete(name, tokenizer.decode(render(tokenizer, case)), case)
            expected[f"{name}-{kind}"] = [render(tokenizer, case) for case in [*cases, *changed]]
    (folder / "cases.json").write_text(json.dumps({"cases": cases, "changed": changed, "expected": expected}))


def assert_complete(name, text, case):
    """Nothing of a conversation is lost: tools, calls, results and texts, but for the thinking, white space and what a text repeats of it."""
    named = [tool["function"]["name"] for tool in case["tools"]] if case["tools"] else []
    said = [as_objects(message)["content"] for message in case["messages"] if message["role"] != "assistant"]
    missing = [part for part in [*named, *said] if part.strip() not in text]
    if missing or text.count("<tool_response>\n") < sum(message["role"] == "tool" for message in case["messages"]):
        raise AssertionError(f"{name} leaves out {missing} of {case}: {text}")


def render(tokenizer, case):
    messages = [as_objects(message) for message in case["messages"]]
    asks = messages[-1]["role"] != "assistant"
    try:
        return tokenizer.apply_chat_template(messages, tools=case["tools"] or None, add_generation_prompt=asks, return_dict=False)
    except (jinja2.TemplateError, TypeError):
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
