"""Tools and reasoning, driven by OpenAI's own Python client.

The models are tiny: one with equal logits, which draws at random from what is allowed, and the bundled one. So that a call
parses and validates is the server's work, not the model's.
"""

import json
import tempfile
import typing
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pypi
from json_test import RandomSchema, format_of
from harness import run
from serving import Case, Server

pypi.fetch()

import jsonschema  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
import tiny_model  # noqa: E402
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: E402
from openai.types.responses import Response, ResponseStreamEvent  # noqa: E402

TEMPLATES = Path(__file__).resolve().parents[1] / "data/chat_templates"
# The families, each with a template in the style of its own and with its markers as tokens (text, special).
FAMILIES = {
    "hermes": ("qwen2_5_tools", [("<tool_call>", False), ("</tool_call>", False)]),
    "llama3_json": ("llama3_1_tools", [("<|python_tag|>", True)]),
    "mistral": ("mistral_v3_tools", [("[TOOL_CALLS]", True)]),
    "smollm2": ("smollm2_tools", []),
}
ASK = [{"role": "user", "content": "What is 6 * 7?"}]
SHORT = {"type": "string", "maxLength": 6}


def template(name):
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


def tool(name, parameters=None, **more):
    function = {"name": name, "description": f"The function {name}.", **more}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def an_object(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


CALCULATOR = tool(
    "calculator",
    an_object(
        a={"type": "integer", "minimum": 0, "maximum": 99}, op={"enum": ["+", "-", "*"]}, b={"type": "integer", "minimum": 0, "maximum": 99}
    ),
)
LOOKUP = tool("lookup", an_object(key={"enum": ["pi", "e", "answer"]}))
NOW = tool("now")
TOOLS = [CALCULATOR, LOOKUP, NOW]
SCHEMAS = {t["function"]["name"]: t["function"].get("parameters", an_object()) for t in TOOLS}


class Calculator(pydantic.BaseModel):
    """Computes."""

    a: int
    op: typing.Literal["+", "-", "*"]
    b: int


class ToolCase(Case):
    """Has servers, a client for one of them, and checks of calls."""

    @classmethod
    def tiny(cls, template_text, tokens, *flags):
        """A server of a model whose logits are equal."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        tiny_model.write(folder.name, more_tokens=tokens, chat_template=template_text)
        server = Server("-m", folder.name, "--alias", "tiny", "-c", "16384", *flags)
        cls.addClassCleanup(server.stop)
        return server

    @classmethod
    def client_of(cls, server):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
        cls.addClassCleanup(client.close)
        return client

    def ask(self, client, messages=None, **parameters):
        """The client's parsed answer after the package's types have validated it."""
        parameters = {"max_tokens": 500, "seed": 1, **parameters}
        raw = client.chat.completions.with_raw_response.create(model="tiny", messages=messages or ASK, **parameters)
        ChatCompletion.model_validate(json.loads(raw.text if isinstance(raw.text, str) else raw.text()))
        return raw.parse()

    def check_calls(self, calls, schemas=None):
        for call in calls:
            self.assertEqual(call.type, "function")
            jsonschema.Draft202012Validator((schemas or SCHEMAS)[call.function.name]).validate(json.loads(call.function.arguments))
        self.assertEqual(len({call.id for call in calls}), len(calls))

    def assembled(self, chunks):
        """The message that a stream makes, as a client would put it together. Checks that names come before arguments."""
        message = {"content": "", "reasoning_content": "", "calls": []}
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk.model_dump(exclude_unset=True))
            if not chunk.choices:
                continue
            choice = chunk.choices[0]
            message["content"] += choice.delta.content or ""
            message["reasoning_content"] += getattr(choice.delta, "reasoning_content", None) or ""
            for part in choice.delta.tool_calls or []:
                if part.index == len(message["calls"]):
                    self.assertEqual((part.type, part.function.arguments), ("function", ""))
                    self.assertTrue(part.id and part.function.name)
                    message["calls"].append({"name": part.function.name, "arguments": "", "pieces": 0})
                else:
                    self.assertEqual((part.index, part.id, part.function.name), (len(message["calls"]) - 1, None, None))
                    message["calls"][-1]["arguments"] += part.function.arguments
                    message["calls"][-1]["pieces"] += 1
            message["finish_reason"] = choice.finish_reason
        return message


class Families(ToolCase):
    """Each family's format."""

    @classmethod
    def setUpClass(cls):
        cls.servers = {name: cls.tiny(template(file), tokens) for name, (file, tokens) in FAMILIES.items()}
        cls.clients = {name: cls.client_of(server) for name, server in cls.servers.items()}

    def test_required_calls_validate(self):
        for name, client in self.clients.items():
            for seed in range(8):
                with self.subTest(family=name, seed=seed):
                    answer = self.ask(client, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, seed=seed)
                    choice = answer.choices[0]
                    self.assertEqual(choice.finish_reason, "tool_calls")
                    self.assertIsNone(choice.message.content)
                    self.assertEqual(len(choice.message.tool_calls), 1)
                    self.check_calls(choice.message.tool_calls)

    def test_calls_may_be_parallel(self):
        for name, client in self.clients.items():
            numbers = set()
            for seed in range(12):
                choice = self.ask(client, tools=TOOLS, tool_choice="required", seed=seed, max_tokens=900).choices[0]
                if choice.finish_reason == "tool_calls":
                    self.check_calls(choice.message.tool_calls)
                    numbers.add(len(choice.message.tool_calls))
            self.assertGreater(max(numbers), 1, msg=f"{name}: {numbers}")

    def test_a_named_function_is_called_once(self):
        for name, client in self.clients.items():
            with self.subTest(family=name):
                choice = {"type": "function", "function": {"name": "lookup"}}
                calls = self.ask(client, tools=TOOLS, tool_choice=choice).choices[0].message.tool_calls
                self.assertEqual([call.function.name for call in calls], ["lookup"])
                self.check_calls(calls)

    def test_auto_is_text_or_valid_calls(self):
        """The model draws at random, so some answers open a call by their marker."""
        for name, client in self.clients.items():
            called = 0
            bias = {str(tiny_model.BYTES + len(tiny_model.SPECIAL)): 5} if FAMILIES[name][1] else {}
            for seed in range(3):
                answer = self.ask(client, tools=TOOLS, n=32, seed=seed, max_tokens=300, logit_bias=bias)
                for choice in answer.choices:
                    calls = choice.message.tool_calls or []
                    complete = choice.finish_reason != "length"
                    self.check_calls(calls if complete else calls[:-1])
                    self.assertEqual(choice.finish_reason == "tool_calls", complete and bool(calls))
                    called += len(calls)
            if bias:
                self.assertGreater(called, 5, msg=name)

    def test_none_leaves_the_text_alone(self):
        for name, client in self.clients.items():
            answer = self.ask(client, tools=TOOLS, tool_choice="none", n=16, max_tokens=60)
            for choice in answer.choices:
                self.assertIsNone(choice.message.tool_calls)

    def test_a_stream_has_the_same_calls(self):
        for name, client in self.clients.items():
            for seed in range(4):
                with self.subTest(family=name, seed=seed):
                    asked = {"tools": TOOLS, "tool_choice": "required", "seed": seed, "max_tokens": 400}
                    whole = self.ask(client, **asked).choices[0]
                    chunks = client.chat.completions.create(model="tiny", messages=ASK, stream=True, **asked)
                    message = self.assembled(chunks)
                    self.assertEqual(
                        [(call["name"], call["arguments"]) for call in message["calls"]],
                        [(call.function.name, call.function.arguments) for call in whole.message.tool_calls],
                    )
                    self.assertEqual(message["finish_reason"], whole.finish_reason)
                    self.assertEqual(message["content"], "")

    def test_200_random_schemas_have_valid_arguments(self):
        """Half of the tools are strict; that makes no difference where a call is required."""
        wanted, cases = 200, 240

        def ask(seed):
            schema = RandomSchema(seed).object(2)
            name = list(self.clients)[seed % len(self.clients)]
            tools = [tool("f", {**schema, "$defs": {"leaf": {"type": "null"}, "tree": {"type": "null"}}}, strict=seed % 2 == 0)]
            answer = self.ask(self.clients[name], tools=tools, tool_choice="required", parallel_tool_calls=False, seed=seed, max_tokens=900)
            return tools[0]["function"]["parameters"], answer.choices[0]

        complete = 0
        with ThreadPoolExecutor(16) as pool:
            for schema, choice in pool.map(ask, range(cases)):
                if choice.finish_reason == "length":
                    continue
                (call,) = choice.message.tool_calls
                errors = [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(json.loads(call.function.arguments))]
                with self.subTest(schema=schema, arguments=call.function.arguments):
                    self.assertEqual(errors, [])
                complete += 1
        print(f"[ figures  ] {complete} of {cases} calls complete and valid")
        self.assertGreaterEqual(complete, wanted)

    def test_history_with_calls_is_a_prompt(self):
        """What a call answers can be sent back, with the id that it had."""
        for name, client in self.clients.items():
            with self.subTest(family=name):
                message = self.ask(client, tools=TOOLS, tool_choice="required", parallel_tool_calls=False).choices[0].message
                call = message.tool_calls[0]
                messages = [*ASK, message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "42"}]
                answer = self.ask(client, messages, tools=TOOLS, max_tokens=5)
                status, counted = self.servers[name].post("/tokenize", {"messages": messages, "tools": TOOLS})
                self.assertEqual((status, counted["count"]), (200, answer.usage.prompt_tokens))
                text = self.servers[name].post("/detokenize", {"tokens": counted["tokens"]})[1]["prompt"]
                for part in (call.function.name, "42", "The function lookup."):
                    self.assertIn(part, text)

    def test_usage_counts_every_token(self):
        for name, client in self.clients.items():
            answer = self.ask(client, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, logprobs=True)
            spoken = len(answer.choices[0].logprobs.content)
            self.assertEqual(answer.usage.completion_tokens, spoken + 1, msg=name)  # and the one that ends it
            self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, 0)

    def test_a_call_that_is_cut_says_so(self):
        cut = self.ask(
            self.clients["hermes"],
            tools=[tool("f", an_object(x={"type": "string", "minLength": 600}))],
            tool_choice="required",
            max_tokens=120,
        )
        self.assertEqual(cut.choices[0].finish_reason, "length")
        self.assertEqual(cut.choices[0].message.tool_calls[0].function.name, "f")

    def test_json_or_calls(self):
        schema = an_object(ok={"type": "boolean"})
        for name, client in self.clients.items():
            answer = self.ask(client, tools=TOOLS, response_format=format_of(schema), n=16, max_tokens=400)
            for choice in answer.choices:
                if choice.finish_reason == "stop":
                    jsonschema.validate(json.loads(choice.message.content), schema)
                elif choice.finish_reason == "tool_calls":
                    self.check_calls(choice.message.tool_calls)

    def test_an_unsupported_schema_is_refused_where_it_must_be_valid(self):
        odd = an_object(x={"not": {}})
        client = self.clients["hermes"]
        for asked in ({"tool_choice": "required"}, {"tools": [tool("f", odd, strict=True)]}):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.ask(client, **{"tools": [tool("f", odd)], **asked})
            self.assertEqual(caught.exception.param, "tools")
            self.assertIn("function f: parameters: #/properties/x: ", str(caught.exception))
        self.ask(client, tools=[tool("f", odd)], max_tokens=5)


class Clients(ToolCase):
    """The package's own helpers, and /v1/responses."""

    @classmethod
    def setUpClass(cls):
        file, tokens = FAMILIES["hermes"]
        cls.server = cls.tiny(template(file), tokens)
        cls.client = cls.client_of(cls.server)

    PARSED = {"model": "tiny", "messages": ASK, "tool_choice": "required", "parallel_tool_calls": False, "seed": 3, "max_tokens": 500}

    def test_parse_gives_the_arguments_as_a_model(self):
        answer = self.client.chat.completions.parse(tools=[openai.pydantic_function_tool(Calculator)], **self.PARSED)
        (call,) = answer.choices[0].message.tool_calls
        self.assertIsInstance(call.function.parsed_arguments, Calculator)

    def test_the_streaming_helper_tells_of_arguments(self):
        with self.client.chat.completions.stream(tools=[openai.pydantic_function_tool(Calculator)], **self.PARSED) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_completion()
        self.assertIn("tool_calls.function.arguments.delta", types)
        self.assertEqual(types.count("tool_calls.function.arguments.done"), 1)
        self.assertIsInstance(final.choices[0].message.tool_calls[0].function.parsed_arguments, Calculator)

    FLAT = [{"type": "function", "strict": False, **t["function"]} for t in TOOLS]
    RESPOND = {"model": "tiny", "input": "What is 6 * 7?", "tools": FLAT, "tool_choice": "required", "max_output_tokens": 500}

    def respond(self, **more):
        raw = self.client.responses.with_raw_response.create(**{**self.RESPOND, "parallel_tool_calls": False, **more})
        Response.model_validate(json.loads(raw.text if isinstance(raw.text, str) else raw.text()))
        return raw.parse()

    def test_a_response_has_calls_as_items(self):
        answer = self.respond()
        (call,) = answer.output
        self.assertEqual((call.type, call.status, answer.status), ("function_call", "completed", "completed"))
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
        self.assertEqual([t.name for t in answer.tools], list(SCHEMAS))
        self.assertEqual((answer.tool_choice, answer.parallel_tool_calls), ("required", False))

    def test_a_response_goes_on_with_outputs(self):
        answer = self.respond()
        (call,) = answer.output
        items = [{"role": "user", "content": "What is 6 * 7?"}, *[item.model_dump(exclude_none=True) for item in answer.output]]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "42"})
        again = self.respond(input=items, tool_choice={"type": "function", "name": "now"})
        self.assertEqual(again.output[0].name, "now")
        asked = {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        messages = [*ASK, {"role": "assistant", "tool_calls": [asked]}, {"role": "tool", "tool_call_id": call.call_id, "content": "42"}]
        counted = self.server.post("/tokenize", {"messages": messages, "tools": TOOLS})[1]["count"]
        self.assertEqual(again.usage.input_tokens, counted)

    def test_the_events_of_a_response_are_the_clients_types(self):
        event_type = pydantic.TypeAdapter(ResponseStreamEvent)
        events = list(self.client.responses.create(**self.RESPOND, stream=True))
        for event in events:
            event_type.validate_python(event.model_dump(exclude_unset=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        added = [event.item for event in events if event.type == "response.output_item.added"]
        done = [event.item for event in events if event.type == "response.output_item.done"]
        self.assertEqual([item.id for item in added], [item.id for item in done])
        deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
        self.assertEqual(deltas, "".join(item.arguments for item in done))
        ends = [event.arguments for event in events if event.type == "response.function_call_arguments.done"]
        self.assertEqual(ends, [item.arguments for item in done])
        self.assertEqual(events[-1].response.output, done)

    def test_the_helper_of_responses_collects_calls(self):
        with self.client.responses.stream(**self.RESPOND, parallel_tool_calls=False) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertIn("response.function_call_arguments.delta", types)
        jsonschema.validate(json.loads(final.output[0].arguments), SCHEMAS[final.output[0].name])

    def test_parse_of_responses_gives_a_model(self):
        answer = self.client.responses.parse(
            **{**self.RESPOND, "tools": [openai.pydantic_function_tool(Calculator)["function"] | {"type": "function"}]}
        )
        self.assertEqual(answer.output[0].type, "function_call")

    def test_each_wrong_field_is_named(self):
        wrong = {
            "tools[0].function.name": {"tools": [{"type": "function", "function": {}}]},
            "tools[0].function.parameters": {"tools": [tool("f", 7)]},
            "tools[0].type": {"tools": [{"type": "retrieval"}]},
            "tool_choice": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
            "parallel_tool_calls": {"tools": TOOLS, "parallel_tool_calls": "yes"},
            "messages[1].tool_call_id": {"messages": [*ASK, {"role": "tool", "content": "42"}]},
            "chat_template_kwargs": {"extra_body": {"chat_template_kwargs": 7}},
            "max_reasoning_tokens": {"extra_body": {"max_reasoning_tokens": 5}},  # the template has no reasoning
            "continue_final_message": {"extra_body": {"continue_final_message": True, "add_generation_prompt": True}},
        }
        for param, asked in wrong.items():
            with self.subTest(param=param), self.assertRaises(openai.BadRequestError) as caught:
                self.ask(self.client, **asked)
            self.assertEqual((caught.exception.status_code, caught.exception.param), (400, param))


class Agent(ToolCase):
    """A loop of calls and results, on the bundled model."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--alias", "tiny", "--chat-template", str(TEMPLATES / "qwen2_5_tools.jinja"))
        cls.addClassCleanup(cls.server.stop)
        cls.client = cls.client_of(cls.server)

    def result_of(self, call):
        arguments = json.loads(call.function.arguments)
        if call.function.name == "lookup":
            return {"pi": "3.14159", "e": "2.71828", "answer": "42"}[arguments["key"]]
        operations = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
        return str(operations[arguments["op"]](arguments["a"], arguments["b"]))

    def test_ten_turns_end(self):
        tools, messages = [CALCULATOR, LOOKUP], [{"role": "user", "content": "Add up what you find."}]
        results = 0
        for turn in range(10):
            choice = "required" if turn < 9 else "auto"
            answer = self.ask(self.client, messages, tools=tools, tool_choice=choice, parallel_tool_calls=False, seed=turn, max_tokens=120)
            counted = self.server.post("/tokenize", {"messages": messages, "tools": tools})[1]["count"]
            self.assertEqual(answer.usage.prompt_tokens, counted)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or []:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": self.result_of(call)})
                results += 1
        self.assertGreaterEqual(results, 9)
        self.assertIn(answer.choices[0].finish_reason, ["stop", "length", "tool_calls"])
        self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens, 0)  # the turns share their beginning


class Reasoning(ToolCase):
    """Models whose prompts open the reasoning, or that may open it."""

    THINK = [("<think>", False), ("</think>", False)]

    @classmethod
    def setUpClass(cls):
        opens = tiny_model.CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}") + "{# </think> #}"
        cls.open = cls.client_of(cls.tiny(opens, cls.THINK))
        cls.spelled = cls.client_of(cls.tiny(opens, []))
        qwen = template("qwen3_thinking")
        cls.qwen_server = cls.tiny(qwen, [*cls.THINK, ("<tool_call>", False), ("</tool_call>", False)])
        cls.qwen = cls.client_of(cls.qwen_server)
        cls.end = tiny_model.BYTES + len(tiny_model.SPECIAL) + 1  # </think>

    def test_reasoning_is_beside_the_content(self):
        answer = self.ask(self.open, n=24, logit_bias={str(self.end): 4}, logprobs=True, max_tokens=200)
        both = reasoning_tokens = 0
        for choice in answer.choices:
            reasoning = getattr(choice.message, "reasoning_content", None) or ""
            self.assertNotIn("</think>", reasoning)
            both += bool(reasoning) and bool(choice.message.content)
            tokens = [token.token for token in choice.logprobs.content]
            ended = choice.finish_reason == "stop" and "</think>" not in tokens  # with the token that ends the answer
            reasoning_tokens += tokens.index("</think>") if "</think>" in tokens else len(tokens) + ended
        self.assertGreater(both, 3)
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, reasoning_tokens)

    def test_a_budget_ends_the_reasoning(self):
        for client in (self.open, self.spelled):
            for budget in (0, 1, 7, 40):
                bias = {str(self.end): -100} if client is self.open else {}  # the model does not end it by itself
                answer = self.ask(
                    client,
                    max_tokens=300,
                    seed=budget,
                    logit_bias=bias,
                    extra_body={"max_reasoning_tokens": budget},
                    response_format=format_of(an_object(x=SHORT)),
                )
                self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, budget)
                jsonschema.validate(json.loads(answer.choices[0].message.content), an_object(x=SHORT))
                self.assertEqual(bool(getattr(answer.choices[0].message, "reasoning_content", "")), budget > 0)

    def test_a_stream_has_the_same_parts(self):
        asked = {"seed": 5, "max_tokens": 200, "extra_body": {"max_reasoning_tokens": 20}}
        message = self.ask(self.open, **asked).choices[0].message
        streamed = self.assembled(self.open.chat.completions.create(model="tiny", messages=ASK, stream=True, **asked))
        self.assertEqual(streamed["content"], message.content)
        self.assertEqual(streamed["reasoning_content"], message.reasoning_content)
        self.assertTrue(message.reasoning_content)

    def test_a_schema_applies_after_the_reasoning(self):
        schema = an_object(x={"type": "integer"})
        answer = self.ask(self.open, n=16, logit_bias={str(self.end): 5}, response_format=format_of(schema), max_tokens=400)
        complete = [choice.message for choice in answer.choices if choice.finish_reason == "stop"]
        self.assertGreater(len(complete), 8)
        for message in complete:
            jsonschema.validate(json.loads(message.content), schema)

    def test_calls_come_after_the_reasoning(self):
        bias = {str(tiny_model.BYTES + len(tiny_model.SPECIAL)): 5, str(self.end): 5}
        thought = 0
        for seed in range(12):
            answer = self.ask(self.qwen, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, seed=seed, logit_bias=bias)
            choice = answer.choices[0]
            if choice.finish_reason == "tool_calls":
                self.check_calls(choice.message.tool_calls)
                thought += bool(getattr(choice.message, "reasoning_content", None))
        self.assertGreater(thought, 0)

    def test_thinking_can_be_turned_off(self):
        kwargs = {"chat_template_kwargs": {"enable_thinking": False}, "max_reasoning_tokens": 3}
        answer = self.ask(self.qwen, max_tokens=40, extra_body=kwargs)
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, 0)
        counted = self.qwen_server.post("/tokenize", {"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}})[1]
        self.assertEqual(counted["count"], answer.usage.prompt_tokens)
        text = self.qwen_server.post("/detokenize", {"tokens": counted["tokens"]})[1]["prompt"]
        self.assertTrue(text.endswith("<think>\n\n</think>\n\n"))

    def test_a_message_can_be_continued(self):
        messages = [*ASK, {"role": "assistant", "content": "The answer is"}]
        counted = self.qwen_server.post("/tokenize", {"messages": messages, "continue_final_message": True})[1]
        text = self.qwen_server.post("/detokenize", {"tokens": counted["tokens"]})[1]["prompt"]
        self.assertTrue(text.endswith("The answer is"))
        answer = self.ask(self.qwen, messages, max_tokens=3, extra_body={"continue_final_message": True, "add_generation_prompt": False})
        self.assertEqual(answer.usage.prompt_tokens, counted["count"])
        without = self.qwen_server.post("/tokenize", {"messages": ASK, "add_generation_prompt": False})[1]
        text = self.qwen_server.post("/detokenize", {"tokens": without["tokens"]})[1]["prompt"]
        self.assertFalse(text.endswith("assistant\n"))

    def test_a_response_has_a_reasoning_item(self):
        answer = self.open.responses.create(
            model="tiny", input="Hi", max_output_tokens=60, extra_body={"max_reasoning_tokens": 9, "seed": 2}
        )
        self.assertEqual(answer.output[0].type, "reasoning")
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 9)
        event_type = pydantic.TypeAdapter(ResponseStreamEvent)
        events = list(
            self.open.responses.create(
                model="tiny", input="Hi", max_output_tokens=60, stream=True, extra_body={"max_reasoning_tokens": 9, "seed": 2}
            )
        )
        for event in events:
            event_type.validate_python(event.model_dump(exclude_unset=True))
        deltas = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
        self.assertEqual(deltas, answer.output[0].content[0].text)


class Parsers(ToolCase):
    """Formats that the server is told."""

    @classmethod
    def setUpClass(cls):
        pass  # each test has a server of its own

    def test_a_template_without_a_format_refuses_tools(self):
        client = self.client_of(self.tiny(tiny_model.CHATML, []))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(client, tools=TOOLS)
        self.assertEqual(caught.exception.param, "tools")
        self.assertIn("--tool-parser", str(caught.exception))

    def test_a_parser_can_be_named(self):
        for name in FAMILIES:
            server = self.tiny(tiny_model.CHATML, [], "--tool-parser", name)
            client = self.client_of(server)
            calls = self.ask(client, tools=TOOLS, tool_choice="required", parallel_tool_calls=False).choices[0].message.tool_calls
            self.check_calls(calls)

    def test_a_model_can_be_told_to_reason(self):
        client = self.client_of(self.tiny(tiny_model.CHATML, [], "--reasoning-parser", "deepseek_r1"))
        answer = self.ask(client, max_tokens=60, extra_body={"max_reasoning_tokens": 4})
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, 4)

    def test_an_unknown_parser_is_one_line(self):
        for flag in ("--tool-parser", "--reasoning-parser"):
            done = run("serve", flag, "nonsense")
            self.assertEqual(done.returncode, 2, msg=done.stderr)
            (line,) = done.stderr.decode().strip().splitlines()[-1:]
            self.assertIn(flag, line)
            self.assertIn("nonsense", line)


if __name__ == "__main__":
    print("openai", openai.__version__)
    unittest.main()
