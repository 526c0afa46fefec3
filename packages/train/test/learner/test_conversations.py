"""Tests of conversations over HTTP, with a policy that says what it is told: python3 test_conversations.py"""
import json
import unittest

from learner_process import READ_NOTE
from tiny_learner import start


class Conversations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.learner = start("forced_policy.py:ForcedPolicy")

    @classmethod
    def tearDownClass(cls):
        cls.learner.close()

    def two_turns(self, said, follow, echo=lambda message: message, tools=(READ_NOTE,), **settings):
        """Answers of two turns, where the policy says `said` and then "done"."""
        user = {"role": "user", "content": f"answer: {json.dumps(said)}\nanswer: {json.dumps('done')}"}
        first = self.learner.chat([user], tools, **settings)
        message = first["choices"][0]["message"]
        second = self.learner.chat([user, echo(message), *follow(message)], tools)
        self.assertEqual(second["choices"][0]["message"]["content"], "done")
        return first, second

    def read(self, message):
        return [{"role": "tool", "tool_call_id": call["id"], "content": "ab"} for call in message.get("tool_calls", [])]

    def assertExtends(self, first, second):
        ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
        self.assertEqual(second["prompt_token_ids"][: len(ids)], ids)

    def rewritten(self):
        return self.learner.request("/health")[1]["rewritten"]

    def test_a_second_turn_extends_the_tokens_of_the_first(self):
        call = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
        before = self.rewritten()
        for said, calls in [
            (call, 1),
            (f"I read it.  \n\n {call}", 1),
            (f"<think>\nLet me see.\n\n</think>\n\n{call}", 1),
            (f"{call}\n{call}\n", 2),
            ('  <tool_call>{"arguments":  { "page" : 1.0 , "größe":"ü\\u00fc" },"name":"read_note"}</tool_call>\t', 1),
        ]:
            first, second = self.two_turns(said, self.read)
            self.assertEqual(first["choices"][0]["finish_reason"], "tool_calls")
            self.assertEqual(len(first["choices"][0]["message"]["tool_calls"]), calls)
            self.assertExtends(first, second)
        self.assertEqual(self.rewritten(), before)

    def test_without_tools_to_choose_from_a_call_is_text(self):
        call = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
        user = {"role": "user", "content": f"answer: {json.dumps(call)}"}
        answer = self.learner.chat([user], [READ_NOTE], tool_choice="none")
        self.assertEqual(answer["choices"][0]["message"], {"role": "assistant", "content": call})
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        without = self.learner.chat([user], [])
        self.assertEqual(answer["prompt_token_ids"], without["prompt_token_ids"])

    def test_white_space_survives(self):
        for said in ("  two spaces  ", "\n\nlines\r\n\t\n", "\u00a0\ufeffmarks \u2028", "emoji 👩‍👩‍👧", "", " "):
            first, second = self.two_turns(said, lambda message: [{"role": "user", "content": " again \n"}])
            self.assertEqual(first["choices"][0]["message"]["content"], said)
            self.assertExtends(first, second)

    def test_arguments_are_the_text_that_the_model_wrote(self):
        arguments = '{ "page" :1.0,  "größe":"ü\\u00fc", "n":12345678901234567890 }'
        first, _ = self.two_turns(f'<tool_call>{{"name": "read_note", "arguments": {arguments}}}</tool_call>', self.read)
        self.assertEqual(first["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], arguments)
        self.assertIsNone(first["choices"][0]["message"]["content"])

    def test_a_call_that_is_not_json_stays_in_the_content(self):
        said = '<tool_call>\n{"name": "read_note", "arguments": {]}\n</tool_call>'
        first, second = self.two_turns(said, lambda message: [{"role": "user", "content": "What?"}])
        self.assertEqual(first["choices"][0]["message"], {"role": "assistant", "content": said})
        self.assertEqual(first["choices"][0]["finish_reason"], "stop")
        self.assertExtends(first, second)

    def test_a_client_may_leave_out_the_reasoning_and_write_empty_fields_otherwise(self):
        said = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'

        def echo(message):
            self.assertEqual(message["reasoning_content"], "Hm.")
            return {"role": "assistant", "content": "", "refusal": None, "tool_calls": message["tool_calls"]}

        first, second = self.two_turns(said, self.read, echo)
        self.assertExtends(first, second)

    def test_a_call_that_was_cut_off_is_not_made(self):
        call = '<tool_call>\n{"name": "read_note", "arguments": {}}\n</tool_call>'
        first, second = self.two_turns(call, lambda message: [{"role": "user", "content": "Go on."}], max_tokens=30)
        choice = first["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"].get("tool_calls")), ("length", None))
        self.assertTrue(call.startswith(choice["message"]["content"]))
        self.assertExtends(first, second)

    def test_an_answer_that_was_cut_off_gets_its_end(self):
        first, second = self.two_turns("a long answer", lambda message: [{"role": "user", "content": "Go on."}], max_tokens=6)
        self.assertEqual(first["choices"][0]["message"]["content"], "a long")
        self.assertExtends(first, second)
        at = len(first["prompt_token_ids"]) + 6
        self.assertIn(second["prompt_token_ids"][at], [second["choices"][0]["token_ids"][-1]])

    def test_a_conversation_is_rendered_again_where_the_template_drops_earlier_thinking(self):
        before = self.rewritten()
        first, second = self.two_turns("<think>\nHm.\n</think>\n\nYes.", lambda message: [{"role": "user", "content": "Sure?"}])
        self.assertEqual(self.rewritten(), before + 1)
        self.assertEqual(first["choices"][0]["message"], {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."})
        thinking = first["choices"][0]["token_ids"][0]
        self.assertEqual(second["prompt_token_ids"].count(thinking), 1)  # the one in the question

    def test_a_changed_answer_is_not_taken_for_the_recorded_one(self):
        first, second = self.two_turns(
            "Yes.", lambda message: [{"role": "user", "content": "Sure?"}], lambda message: {**message, "content": "No."})
        ids = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
        self.assertNotEqual(second["prompt_token_ids"][: len(ids)], ids)

    def test_stop_texts_cut_the_answer(self):
        first, second = self.two_turns("one STOP two", lambda message: [{"role": "user", "content": "again"}], stop=["STOP"])
        choice = first["choices"][0]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), ("one ", "stop"))
        self.assertEqual(len(choice["token_ids"]), len("one STOP"))
        self.assertExtends(first, second)


if __name__ == "__main__":
    unittest.main(verbosity=2)
