"""Tools and thinking of /v1/messages, driven by Anthropic's own Python client, with the tiny models of tools_test.py."""

import json
import unittest

import pypi
from tools_test import ASK, FAMILIES, ToolCase, an_object, template

pypi.fetch()

import anthropic  # noqa: E402
import jsonschema  # noqa: E402
import pydantic  # noqa: E402
import tiny_model  # noqa: E402
from anthropic.types import Message, RawMessageStreamEvent  # noqa: E402

NUMBER = {"type": "integer", "minimum": 0, "maximum": 99}
SCHEMAS = {"calculator": an_object(a=NUMBER, op={"enum": ["+", "-", "*"]}, b=NUMBER), "lookup": an_object(key={"enum": ["pi", "e"]})}
TOOLS = [{"name": name, "description": f"The tool {name}.", "input_schema": schema} for name, schema in SCHEMAS.items()]
ANY = {"type": "any", "disable_parallel_tool_use": True}


class MessageCase(ToolCase):
    @classmethod
    def client_of(cls, server):
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0)
        cls.addClassCleanup(client.close)
        return client

    def create(self, client, messages=ASK, seed=1, **parameters):
        """Returns the client's parsed answer after the package's types have validated it."""
        asked = {"model": "tiny", "max_tokens": 500, "extra_body": {"seed": seed}, "messages": messages, **parameters}
        raw = client.messages.with_raw_response.create(**asked)
        Message.model_validate(json.loads(raw.text))
        return raw.parse()

    def check_calls(self, blocks):
        for block in blocks:
            self.assertEqual(block.type, "tool_use")
            jsonschema.validate(block.input, SCHEMAS[block.name])
        self.assertEqual(len({block.id for block in blocks}), len(blocks))


class Tools(MessageCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = {name: cls.tiny(template(file), tokens) for name, (file, tokens) in FAMILIES.items()}
        cls.clients = {name: cls.client_of(server) for name, server in cls.servers.items()}

    def test_a_tool_that_must_be_used_gets_valid_input(self):
        for name, client in self.clients.items():
            for seed in range(4):
                with self.subTest(family=name, seed=seed):
                    answer = self.create(client, seed=seed, tools=TOOLS, tool_choice=ANY)
                    self.assertEqual((answer.stop_reason, len(answer.content)), ("tool_use", 1))
                    self.check_calls(answer.content)

    def test_a_tool_that_is_named_is_used(self):
        for name, client in self.clients.items():
            with self.subTest(family=name):
                answer = self.create(client, tools=TOOLS, tool_choice={"type": "tool", "name": "lookup"})
                self.assertEqual([block.name for block in answer.content], ["lookup"])
                self.check_calls(answer.content)

    def test_without_a_choice_of_tools_there_is_text(self):
        answer = self.create(self.clients["hermes"], tools=TOOLS, tool_choice={"type": "none"}, max_tokens=40)
        self.assertLessEqual({block.type for block in answer.content}, {"text"})

    def test_a_stream_makes_the_same_message(self):
        event_type = pydantic.TypeAdapter(RawMessageStreamEvent)
        for name, client in self.clients.items():
            for seed in range(3):
                with self.subTest(family=name, seed=seed):
                    asked = {"tools": TOOLS, "tool_choice": {"type": "any"}}
                    whole = self.create(client, seed=seed, **asked)
                    stream_of = {"model": "tiny", "max_tokens": 500, "messages": ASK, "extra_body": {"seed": seed}, **asked}
                    for event in client.messages.create(stream=True, **stream_of):
                        event_type.validate_python(event.model_dump(exclude_unset=True))
                    with client.messages.stream(**stream_of) as stream:
                        final = stream.get_final_message()
                    self.assertEqual(final.stop_reason, whole.stop_reason)
                    self.assertEqual([block.name for block in final.content], [block.name for block in whole.content])
                    if whole.stop_reason == "tool_use":
                        self.assertEqual([block.input for block in final.content], [block.input for block in whole.content])

    def test_an_agent_loop_ends(self):
        """Nine turns use a tool; the tenth may not."""
        for name, client in self.clients.items():
            with self.subTest(family=name):
                messages = list(ASK)
                for turn in range(9):
                    answer = self.create(client, messages, seed=turn, tools=TOOLS, tool_choice=ANY)
                    self.check_calls(answer.content)
                    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "42"} for block in answer.content]
                    messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
                answer = self.create(client, messages, tools=TOOLS, tool_choice={"type": "none"}, max_tokens=20)
                self.assertIn(answer.stop_reason, ("end_turn", "max_tokens"))
                usage = answer.usage
                counted = client.messages.count_tokens(model="tiny", messages=messages, tools=TOOLS, tool_choice={"type": "none"})
                self.assertEqual(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)

    def test_the_prompt_is_that_of_the_chat(self):
        functions = [
            {"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["input_schema"]}} for t in TOOLS
        ]
        for name, client in self.clients.items():
            answer = self.create(client, tools=TOOLS, max_tokens=1)
            counted = self.servers[name].post("/tokenize", {"messages": ASK, "tools": functions, "chat_template_kwargs": {"enable_thinking": False}})
            self.assertEqual(counted[1]["count"], answer.usage.input_tokens + answer.usage.cache_read_input_tokens)

    def test_a_schema_that_is_not_supported_is_refused(self):
        tools = [{"name": "f", "input_schema": an_object(x={"not": {}})}]
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(self.clients["hermes"], tools=tools, tool_choice=ANY)
        self.assertIn("function f", caught.exception.body["error"]["message"])


class Thinking(MessageCase):
    @classmethod
    def setUpClass(cls):
        think = [("<think>", False), ("</think>", False)]
        opens = tiny_model.CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}") + "{# </think> #}"
        cls.server = cls.tiny(opens, think, "--reasoning-parser", "deepseek_r1")
        cls.client = cls.client_of(cls.server)

    def test_thinking_is_a_block_before_the_text_and_has_a_budget(self):
        answer = self.create(self.client, thinking={"type": "enabled", "budget_tokens": 5}, max_tokens=60)
        self.assertEqual(answer.content[0].type, "thinking")
        self.assertTrue(answer.content[0].thinking)
        self.assertEqual(answer.usage.output_tokens_details.thinking_tokens, 5)
        again = [*ASK, {"role": "assistant", "content": answer.content}, {"role": "user", "content": "And?"}]
        self.create(self.client, again, max_tokens=5)

    def test_thinking_is_streamed(self):
        asked = {"model": "tiny", "max_tokens": 60, "messages": ASK, "thinking": {"type": "enabled", "budget_tokens": 5}, "extra_body": {"seed": 1}}
        with self.client.messages.stream(**asked) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_message()
        self.assertIn("thinking", types)
        whole = self.create(self.client, thinking={"type": "enabled", "budget_tokens": 5}, max_tokens=60)
        self.assertEqual(final.content[0].thinking, whole.content[0].thinking)

    def test_a_model_that_does_not_reason_has_no_budget(self):
        client = self.client_of(self.tiny(tiny_model.CHATML, []))
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(client, thinking={"type": "enabled", "budget_tokens": 5})
        self.assertTrue(caught.exception.body["error"]["message"].startswith("thinking"))


if __name__ == "__main__":
    unittest.main()
