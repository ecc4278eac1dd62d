"""Anthropic's own Python client drives /v1/messages and /v1/messages/count_tokens."""

import json
import unittest
from pathlib import Path

import pypi
from serving import Case

pypi.fetch()

import anthropic  # noqa: E402
import pydantic  # noqa: E402
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent  # noqa: E402

STORY = [{"role": "user", "content": "Tell me a story."}]
GREEDY = {"temperature": 0, "max_tokens": 24}
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class Messages(Case):
    FLAGS = ("--api-key", "test-key", "--alias", "stories")

    def setUp(self):
        self.client = self.client_with(api_key="test-key")

    def client_with(self, **options):
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.server.port}", max_retries=0, **options)
        self.addCleanup(client.close)
        return client

    def create(self, messages=STORY, **parameters):
        """Returns the client's parsed answer after the package's types have validated it."""
        asked = {**GREEDY, **parameters}
        raw = self.client.messages.with_raw_response.create(model="stories", messages=messages, **asked)
        Message.model_validate(json.loads(raw.text))
        return raw.parse()

    def refuses(self, error, param, **parameters):
        """The message begins with the parameter's name."""
        with self.subTest(param=param):
            with self.assertRaises(error) as caught:
                self.create(**parameters)
            body = caught.exception.body
            self.assertEqual(set(body), {"type", "error", "request_id"})
            self.assertEqual(body["type"], "error")
            self.assertEqual(set(body["error"]), {"type", "message"})
            self.assertEqual(body["request_id"], caught.exception.request_id)
            self.assertTrue(body["error"]["message"].lstrip('"').startswith(param.strip('"')), msg=body)
            return body["error"]

    def chat(self, messages, **parameters):
        body = {"messages": messages, **GREEDY, **parameters}
        status, answer = self.server.post("/v1/chat/completions", body, headers={"Authorization": "Bearer test-key"})
        self.assertEqual(status, 200, msg=answer)
        return answer

    def test_the_documents_name_this_version(self):
        document = Path(__file__).resolve().parents[2] / "docs/api.md"
        self.assertIn(f"`anthropic` {anthropic.__version__}", document.read_text(encoding="utf-8"))

    def test_a_message_is_what_the_chat_says(self):
        said = self.chat(STORY)
        answer = self.create()
        self.assertEqual([block.type for block in answer.content], ["text"])
        self.assertEqual(answer.content[0].text, said["choices"][0]["message"]["content"])
        self.assertEqual((answer.type, answer.role, answer.model), ("message", "assistant", "stories"))
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("max_tokens", None))
        self.assertEqual(answer.usage.output_tokens, said["usage"]["completion_tokens"])
        self.assertTrue(answer.id.startswith("msg_"))
        self.assertEqual(answer._request_id, answer.id)

    def test_the_end_of_the_models_text_ends_the_turn(self):
        self.assertEqual(self.create(max_tokens=1900).stop_reason, "end_turn")

    def test_tokens_that_were_read_before_count_as_read_from_the_cache(self):
        text = "The fox and the owl went to the river. " * 20
        first, second = (self.create([{"role": "user", "content": text}]).usage for _ in range(2))
        tokens = first.input_tokens + first.cache_read_input_tokens
        self.assertLess(first.cache_read_input_tokens, 16, "what all conversations begin with")
        self.assertEqual((second.input_tokens, second.cache_read_input_tokens), (1, tokens - 1))
        self.assertEqual(second.cache_creation_input_tokens, 0)

    def test_content_and_system_may_be_blocks(self):
        plain = self.create([{"role": "user", "content": "Tell me about a fox."}], system="Be kind.")
        said = self.chat([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Tell me about a fox."}])
        self.assertEqual(plain.content[0].text, said["choices"][0]["message"]["content"])
        cached = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
        blocks = [{"type": "text", "text": "Tell me "}, {"type": "text", "text": "about a fox.", **cached}]
        answer = self.create([{"role": "user", "content": blocks}], system=[{"type": "text", "text": "Be kind.", **cached}])
        self.assertEqual(answer.content[0].text, plain.content[0].text)

    def test_turns_of_one_role_become_one(self):
        joined = self.create([{"role": "user", "content": "Hello.\n\nTell me a story."}])
        apart = self.create([{"role": "user", "content": "Hello."}, {"role": "user", "content": "Tell me a story."}])
        self.assertEqual(apart.content[0].text, joined.content[0].text)

    def test_an_answer_is_part_of_the_next_question(self):
        first = self.create()
        turns = [*STORY, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And then?"}]
        said = self.chat(
            [*STORY, {"role": "assistant", "content": first.content[0].text}, {"role": "user", "content": "And then?"}]
        )
        self.assertEqual(self.create(turns).content[0].text, said["choices"][0]["message"]["content"])

    def test_a_stop_sequence_ends_the_text_and_is_named(self):
        text = self.create().content[0].text
        stop = text[len(text) // 2 :][:5]
        answer = self.create(stop_sequences=["no such text", stop])
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", stop))
        self.assertEqual(answer.content[0].text, text[: text.index(stop)])

    def test_a_stream_has_anthropics_events_in_their_order(self):
        whole = self.create()
        events = list(self.client.messages.create(model="stories", messages=STORY, stream=True, **GREEDY))
        event_type = pydantic.TypeAdapter(RawMessageStreamEvent)
        for event in events:
            event_type.validate_python(event.model_dump(exclude_unset=True))
        names = [event.type for event in events]
        deltas = names.count("content_block_delta")
        begin, end = ["message_start", "content_block_start"], ["content_block_stop", "message_delta", "message_stop"]
        self.assertEqual(names, begin + ["content_block_delta"] * deltas + end)  # the client hides pings
        self.assertGreater(deltas, 10)
        start, last = events[0].message, events[-2]
        self.assertEqual((start.id[:4], start.content, start.stop_reason), ("msg_", [], None))
        self.assertEqual(start.usage.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)
        self.assertEqual(last.delta.stop_reason, "max_tokens")
        self.assertEqual(last.usage.output_tokens, 24)
        self.assertEqual("".join(e.delta.text for e in events if e.type == "content_block_delta"), whole.content[0].text)

    def test_the_bytes_of_a_stream_name_each_event(self):
        body = json.dumps({"messages": STORY, "stream": True, **GREEDY})
        status, headers, answer = self.server.ask("POST", "/v1/messages", body, {"x-api-key": "test-key"})
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream; charset=utf-8"))
        events = [event.split("\n") for event in answer.decode().strip().split("\n\n")]
        for name, data in events:
            self.assertEqual(name, "event: " + json.loads(data.removeprefix("data: "))["type"])
        self.assertEqual([event[0] for event in events][:3], ["event: message_start", "event: content_block_start", "event: ping"])

    def test_the_clients_stream_helper_makes_the_same_message(self):
        whole = self.create(stop_sequences=["."], max_tokens=200)
        with self.client.messages.stream(model="stories", messages=STORY, temperature=0, max_tokens=200, stop_sequences=["."]) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual((text, final.content[0].text), (whole.content[0].text, whole.content[0].text))
        self.assertEqual((final.stop_reason, final.stop_sequence), ("stop_sequence", "."))
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
        self.assertEqual(stream.request_id, final.id)

    def test_count_tokens_is_what_a_message_reads(self):
        usage = self.create(system="Be kind.").usage
        raw = self.client.messages.with_raw_response.count_tokens(model="stories", messages=STORY, system="Be kind.")
        MessageTokensCount.model_validate(json.loads(raw.text))
        self.assertEqual(raw.parse().input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
        long = [{"role": "user", "content": "word " * 20000}]
        self.assertGreater(self.client.messages.count_tokens(model="stories", messages=long).input_tokens, 20000)
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.count_tokens(model="stories", messages=STORY, extra_body={"max_tokens": 1})

    def test_the_text_can_be_json(self):
        schema = {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"type": "null"}}, "required": ["b", "a"]}
        answer = self.create(output_config={"format": {"type": "json_schema", "schema": schema}}, max_tokens=100)
        self.assertEqual(list(json.loads(answer.content[0].text)), ["b", "a"])
        config = {"format": {"type": "json_schema", "schema": {"not": {}}}}
        self.refuses(anthropic.BadRequestError, "output_config.format", output_config=config)

    def test_a_key_may_come_in_either_header(self):
        self.assertEqual(self.client_with(auth_token="test-key", api_key=None).models.list().data[0].id, "stories")
        self.assertEqual(self.client.models.list().data[0].id, "stories")
        wrong = self.client_with(api_key="wrong")
        with self.assertRaises(anthropic.AuthenticationError) as caught:
            wrong.messages.create(model="stories", messages=STORY, **GREEDY)
        self.assertEqual(caught.exception.type, "authentication_error")

    def test_errors_have_anthropics_types(self):
        self.assertEqual(self.refuses(anthropic.BadRequestError, "top_p", top_p=2)["type"], "invalid_request_error")
        with self.assertRaises(anthropic.NotFoundError) as caught:
            self.client.messages.create(model="claude", messages=STORY, **GREEDY)
        self.assertEqual(caught.exception.type, "not_found_error")
        long = [{"role": "user", "content": "word " * 4000}]
        self.assertIn("tokens; limit", self.refuses(anthropic.BadRequestError, "messages", messages=long)["message"])
        status, answer = self.server.get("/v1/messages", headers={"x-api-key": "test-key"})
        self.assertEqual((status, answer["type"]), (405, "error"))

    def test_another_version_of_the_api_is_refused(self):
        answer = self.create(extra_headers={"anthropic-version": "2023-06-01", "anthropic-beta": "some-beta"})
        self.assertEqual(answer.type, "message")
        self.refuses(anthropic.BadRequestError, "anthropic-version", extra_headers={"anthropic-version": "2030-01-01"})

    def test_each_wrong_field_is_named(self):
        def user(*blocks):
            return [{"role": "user", "content": list(blocks)}]

        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
        use = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": [image]}
        for param, asked in {
            "max_tokens": {"max_tokens": 0},
            "temperature": {"temperature": 1.5},
            "top_k": {"top_k": -1},
            "stop_sequences": {"stop_sequences": [""]},
            "metadata.user_id": {"metadata": {"user_id": "x" * 300}},
            "metadata.name": {"extra_body": {"metadata": {"name": "x"}}},
            "system[0].type": {"system": [image]},
            "messages": {"messages": []},
            "messages[0].role": {"messages": [{"role": "system", "content": "x"}]},
            "messages[0].content": {"messages": [{"role": "user", "content": 7}]},
            "messages[0].content[0].type": {"messages": user(image)},
            "messages[0].content[1].type": {"messages": user({"type": "text", "text": "x"}, {"type": "document"})},
            "messages[0].content[0].text": {"messages": user({"type": "text"})},
            "messages[0].content[0].cache_control.type": {"messages": user({"type": "text", "text": "x", "cache_control": {"type": "no"}})},
            "messages[0].content[0].tool_use_id": {"messages": user({"type": "tool_result", "tool_use_id": "t1"})},
            "messages[1].content[0].input": {"messages": [*STORY, {"role": "assistant", "content": [{**use, "input": 1}]}]},
            "messages[2].content[0].content[0].type": {"messages": [*STORY, {"role": "assistant", "content": [use]}, *user(result)]},
            "messages: the last": {"messages": [*STORY, {"role": "assistant", "content": [use]}]},
            "tools[0].type": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools[0].name": {"tools": [{**WEATHER, "name": "no spaces"}]},
            "tools[0].input_schema": {"tools": [{"name": "f"}]},
            "tools[0].input_schema.type": {"tools": [{"name": "f", "input_schema": {"type": "string"}}]},
            "tools[1].name": {"tools": [WEATHER, WEATHER]},
            "tool_choice": {"tool_choice": {"type": "any"}},
            "tool_choice.type": {"tools": [WEATHER], "tool_choice": {"type": "required"}},
            "tool_choice.name": {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "other"}},
            "thinking.type": {"thinking": {"type": "on"}},
            "thinking.budget_tokens": {"thinking": {"type": "enabled", "budget_tokens": 24}},
            "thinking.display": {"thinking": {"type": "adaptive", "display": "omitted"}},
            "output_config.effort": {"extra_body": {"output_config": {"effort": "low"}}},
        }.items():
            self.refuses(anthropic.BadRequestError, param, **asked)
        for name in ("container", "inference_geo", "context_management", "mcp_servers", "n"):
            error = self.refuses(anthropic.BadRequestError, f'"{name}"', extra_body={name: "x"})
            self.assertIn("not supported", error["message"])

    def test_the_log_names_the_user(self):
        self.create(metadata={"user_id": "ann-7"})
        self.assertIn("path=/v1/messages", self.server.wait_for('user="ann-7"'))


if __name__ == "__main__":
    print("anthropic", anthropic.__version__)
    unittest.main()
