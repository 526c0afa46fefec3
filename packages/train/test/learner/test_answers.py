"""Tests of answers.py: python3 test_answers.py"""
import json
import unittest

from learner_process import HERE, READ_NOTE, question
from tiny_learner import tiny_policy

import answers
from bodies import Problem

# What the templates of each family have in common.
TEMPLATES = {
    "hermes": "<tool_call>", "hermes, thinking": "<tool_call> </think>", "xml": "<tool_call> <function=",
    "llama": '<|start_header_id|> {"name": …, "parameters": …}'}
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "number"}}}}}


class Parsing(unittest.TestCase):
    def test_reads_the_answers_that_every_reader_of_answers_has_to_read(self):
        for case in json.loads((HERE.parent / "answers.json").read_text()):
            search = {**SEARCH["function"], **{key: case[key] for key in ("parameters",) if key in case}}
            offered = [READ_NOTE, {"type": "function", "function": search}] if case.get("tools", True) else []
            message = answers.parse_answer(case["text"], offered, TEMPLATES[case["family"]])
            calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])]
            read = {"content": message["content"], "reasoning": message.get("reasoning_content"), "calls": calls}
            self.assertEqual(read, {"reasoning": None, **{key: case[key] for key in read if key in case}}, case["title"])

    def test_names_the_families_that_it_knows(self):
        for template, expected in [
            *((template, name) for template, name in zip(TEMPLATES.values(), ["Hermes", "Hermes", "Qwen3-Coder", "Llama 3"])),
            ("<tool_call> <arg_key>", "GLM"), ("<|channel|>", "gpt-oss"), ("<|tool_call>", "Gemma"), ("<|tool_call_start|>", "LFM2"),
            ("<｜tool▁call▁begin｜>", "DeepSeek"), ("[TOOL_CALLS]", "Mistral"), ("tools", "an unknown family"),
            ("<seed:tool_call> <function=", "an unknown family")]:
            family = answers.tool_family(template)
            self.assertEqual((family.name, bool(family.read_calls), bool(family.parser)), (expected, template in TEMPLATES.values(), template in TEMPLATES.values()))


class Templates:
    """A policy with the template of a stranger, which knows these roles."""
    name, end_ids = "strange", {0}

    def __init__(self, *roles, write=str):
        self.roles, self.write, self.template = roles, write, " ".join(roles)

    def render(self, messages, tools, answer, **settings):
        return "".join(self.write(m["content"]) for m in messages if m["role"] in self.roles)

    def encode(self, text):
        return list(text.encode())


class Roles(unittest.TestCase):
    def test_developer_is_system_where_the_template_lacks_it(self):
        message = {"role": "developer", "content": "Be brief."}
        known = answers.Conversations(Templates("developer", "user"))
        self.assertEqual(known.roles([message]), [message])
        other = answers.Conversations(Templates("system", "user"))
        self.assertEqual(other.roles([message]), [{**message, "role": "system"}])

    def test_a_message_whose_text_does_not_reach_the_prompt_is_refused(self):
        conversations = answers.Conversations(Templates("user", "system"))
        for role in ("function", "critic", "ipython", "", "tool"):
            messages = [question(1), {"role": role, "content": "text"}, question(2)]
            for _ in range(2):  # the form of a conversation is remembered
                with self.assertRaisesRegex(Problem, r"messages\[1\], whose role is") as refused:
                    conversations.prompt(messages, [], {})
                self.assertEqual((refused.exception.status, refused.exception.body["error"]["code"]), (400, "message_left_out"))
            conversations.prompt([question(1), {"role": role, "content": " \n"}], [], {})
        quoting = answers.Conversations(Templates("user", write=json.dumps))
        quoting.prompt([{"role": "user", "content": 'a "b"\n'}], [], {})


class Conversations(unittest.TestCase):
    def test_two_conversations_that_say_the_same_continue_with_their_own_tokens(self):
        policy, user, answer = tiny_policy(False), question(1), {"role": "assistant", "content": "read_note"}
        conversations = answers.Conversations(policy)
        end = [policy.tokenizer.special["<|im_end|>"]]
        said = {"a": [*policy.encode("read_note"), *end], "b": [*b"read_note", *end]}
        prompt = conversations.prompt([user], [], {})
        for owner, ids in said.items():
            conversations.remember([user], [], {}, answer, prompt + ids, owner)
        for owner, ids in said.items():
            second = conversations.prompt([user, answer, {"role": "user", "content": "Sure?"}], [], {}, owner)
            self.assertEqual(second[: len(prompt + ids)], prompt + ids)
        self.assertNotEqual(said["a"], said["b"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
