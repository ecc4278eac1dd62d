"""OpenAI's own Python client drives every path and parameter."""

import json
import unittest
from pathlib import Path

import pypi
from serving import Case
from harness import run

pypi.fetch()

import openai  # noqa: E402
import pydantic  # noqa: E402
from openai.types import Completion, Model  # noqa: E402
from openai.types.responses import (  # noqa: E402
    Response,
    ResponseCreatedEvent,
    ResponseIncompleteEvent,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: E402

STORY = "Once upon a time"
GREEDY = {"temperature": 0, "max_tokens": 24}


class OpenAi(Case):
    FLAGS = ("--api-key", "test-key", "--alias", "stories")

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="test-key", max_retries=0)
        self.addCleanup(self.client.close)

    def complete(self, prompt=STORY, **parameters):
        """Returns the client's parsed answer after the package's types have validated it."""
        raw = self.client.completions.with_raw_response.create(model="stories", prompt=prompt, **parameters)
        Completion.model_validate(json.loads(raw.text if isinstance(raw.text, str) else raw.text()))
        return raw.parse()

    def chat(self, *texts, **parameters):
        messages = [{"role": "user", "content": text} for text in texts]
        raw = self.client.chat.completions.with_raw_response.create(model="stories", messages=messages, **parameters)
        ChatCompletion.model_validate(json.loads(raw.text if isinstance(raw.text, str) else raw.text()))
        return raw.parse()

    def refuses(self, error, call, param=None):
        with self.assertRaises(error) as caught:
            call()
        self.assertEqual(caught.exception.param, param)
        return caught.exception

    def test_the_documents_name_this_version(self):
        document = Path(__file__).resolve().parents[2] / "docs/api.md"
        self.assertIn(f"`openai` {openai.__version__}", document.read_text(encoding="utf-8"))

    def test_lists_the_model(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], ["stories"])
        Model.model_validate(models[0].model_dump(exclude_unset=True))
        self.assertEqual(self.client.models.retrieve("stories").id, "stories")
        self.refuses(openai.NotFoundError, lambda: self.client.models.retrieve("gpt"), "model")

    def test_completes_as_generate_does(self):
        expected = json.loads(run("generate", "-p", STORY, "-n", "24", "--temp", "0", "--json").stdout)["responses"][0]
        answer = self.complete(**GREEDY)
        self.assertEqual(answer.choices[0].text, expected["text"])
        self.assertEqual(answer.usage.prompt_tokens, expected["prompt_tokens"])
        chunks = list(self.client.completions.create(model="stories", prompt=STORY, stream=True, logprobs=2, **GREEDY))
        for chunk in chunks:
            raw = chunk.model_dump(exclude_unset=True)
            # null before the last one, as in OpenAI's own streams; the package's type does not know that.
            reasons = [choice.pop("finish_reason") for choice in raw["choices"]]
            self.assertEqual(reasons, ["length" if chunk is chunks[-1] else None])
            Completion.model_validate({**raw, "choices": [{**choice, "finish_reason": "length"} for choice in raw["choices"]]})
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), expected["text"])

    def test_takes_every_parameter_of_a_completion(self):
        answer = self.complete(
            prompt=[STORY, "The fox"], n=2, best_of=2, seed=3, temperature=0.9, top_p=0.9, max_tokens=5, stop=["zzz"],
            logprobs=0, user="ann",
            extra_body={"top_k": 20, "min_p": 0.01, "repetition_penalty": 1.1, "ignore_eos": True, "priority": -1,
                        "stop_token_ids": [5]},
        )  # fmt: skip
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        for choice in answer.choices:
            self.assertEqual(len(choice.logprobs.tokens), len(choice.logprobs.token_logprobs))
            self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs))

    def test_a_completion_has_log_probabilities(self):
        expected = json.loads(run("generate", "-p", STORY, "-n", "24", "--temp", "0", "--json").stdout)["responses"][0]
        choice = self.complete(logprobs=0, **GREEDY).choices[0]
        self.assertEqual(choice.text, expected["text"])
        for ours, theirs in zip(choice.logprobs.token_logprobs, expected["log_probabilities"], strict=True):
            self.assertAlmostEqual(ours, theirs, places=5)
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)

    def test_the_likeliest_tokens_are_in_order_and_have_the_greedy_one_first(self):
        logprobs = self.complete(logprobs=5, **GREEDY).choices[0].logprobs
        for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True):
            self.assertEqual(len(top), 5)
            self.assertAlmostEqual(max(top.values()), value, places=4)
            self.assertIn(token, top)
        for token in self.chat("Hello", logprobs=True, top_logprobs=3, **GREEDY).choices[0].logprobs.content:
            values = [likely.logprob for likely in token.top_logprobs]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertEqual(token.top_logprobs[0].token, token.token)

    def test_a_biased_token_is_drawn_or_never(self):
        key = {"Authorization": "Bearer test-key"}

        def last_token(text):
            return self.server.post("/tokenize", {"prompt": text}, headers=key)[1]["tokens"][-1]

        always = self.complete(logit_bias={str(last_token("fox")): 100}, logprobs=0, **GREEDY).choices[0]
        self.assertEqual(len(set(always.logprobs.tokens)), 1)
        token = last_token(STORY + ",")
        self.assertTrue(self.complete(**GREEDY).choices[0].text.startswith(","))
        self.assertFalse(self.complete(logit_bias={str(token): -100}, **GREEDY).choices[0].text.startswith(","))

    def test_min_tokens_are_made(self):
        answer = self.complete(max_tokens=400, extra_body={"min_tokens": 400})
        self.assertEqual(answer.usage.completion_tokens, 400)

    def test_penalties_change_what_is_said(self):
        plain = self.complete(temperature=0, max_tokens=60).choices[0].text
        penalised = self.complete(temperature=0, max_tokens=60, presence_penalty=2, frequency_penalty=2)
        self.assertNotEqual(penalised.choices[0].text, plain)

    def test_echo_repeats_the_prompt(self):
        self.assertTrue(self.complete(echo=True, max_tokens=2).choices[0].text.startswith(STORY))

    def test_the_best_of_several_answers_comes_back(self):
        asked = {"max_tokens": 12, "temperature": 1, "seed": 5, "logprobs": 0}

        def mean(choice):
            return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)

        all_five = self.complete(n=5, **asked)
        best = self.complete(n=2, best_of=5, **asked)
        ranked = sorted(all_five.choices, key=mean, reverse=True)
        self.assertEqual([choice.text for choice in best.choices], [choice.text for choice in ranked[:2]])
        self.assertEqual(best.usage.completion_tokens, all_five.usage.completion_tokens)
        self.refuses(openai.BadRequestError, lambda: self.complete(n=2, best_of=1), "best_of")
        self.refuses(openai.BadRequestError, lambda: self.client.completions.create(model="stories", prompt="x", best_of=2, stream=True), "best_of")

    def test_token_ids_are_listed_in_an_answer_and_in_a_stream(self):
        key = {"Authorization": "Bearer test-key"}
        ids = self.server.post("/tokenize", {"prompt": STORY}, headers=key)[1]["tokens"]
        asked = {"extra_body": {"return_token_ids": True}, **GREEDY}
        choice = self.complete(**asked).choices[0]
        self.assertEqual(choice.prompt_token_ids, ids)
        self.assertEqual(len(choice.token_ids), 24)
        self.assertEqual(self.server.post("/detokenize", {"tokens": choice.token_ids}, headers=key)[1]["prompt"].strip(), choice.text.strip())
        chunks = list(self.client.completions.create(model="stories", prompt=STORY, stream=True, **asked))
        self.assertEqual([token for chunk in chunks for token in chunk.choices[0].token_ids], choice.token_ids)
        self.assertEqual(chunks[0].choices[0].prompt_token_ids, ids)
        said = self.chat("Hello", **asked)
        events = list(self.client.chat.completions.create(model="stories", messages=[{"role": "user", "content": "Hello"}], stream=True, **asked))
        self.assertEqual(events[0].prompt_token_ids, said.prompt_token_ids)
        streamed = [token for event in events for token in getattr(event.choices[0], "token_ids", [])]
        self.assertEqual(streamed, said.choices[0].token_ids)

    def test_a_bad_word_does_not_occur(self):
        text = self.complete(temperature=0, max_tokens=200).choices[0].text
        word = max(set(text.split()), key=text.split().count)
        answer = self.complete(temperature=0, max_tokens=200, extra_body={"bad_words": [word]}).choices[0].text
        self.assertIn(word, text.split())
        self.assertNotIn(word, answer.split())

    def test_a_stop_string_may_stay_in_the_text(self):
        text = self.complete(**GREEDY).choices[0].text
        stop = text[len(text) // 2 :][:5]
        without = self.complete(stop=stop, **GREEDY).choices[0]
        whole = self.complete(stop=stop, extra_body={"include_stop_str_in_output": True}, **GREEDY).choices[0]
        self.assertEqual((without.finish_reason, without.stop_reason), ("stop", stop))
        self.assertEqual(whole.text, without.text + stop)

    def test_salts_keep_prompts_apart(self):
        text = "The owl told the fox a story about the river. " * 10

        def cached(salt):
            details = self.complete(prompt=text, max_tokens=1, extra_body={"cache_salt": salt}).usage.prompt_tokens_details
            return details.cached_tokens

        self.assertEqual(cached("ann"), 0)
        self.assertGreater(cached("ann"), 50)
        self.assertEqual(cached("bob"), 0)

    def test_a_prompt_that_is_too_long_may_be_truncated(self):
        answer = self.complete(prompt="word " * 4000, max_tokens=5, extra_body={"truncate_prompt_tokens": 100})
        self.assertEqual(answer.usage.prompt_tokens, 100)
        fitted = self.complete(prompt="word " * 4000, max_tokens=5, extra_body={"truncate_prompt_tokens": -1})
        context = self.client.models.list().data[0].max_model_len
        self.assertEqual((fitted.usage.prompt_tokens, fitted.usage.completion_tokens), (context - 5, 5))
        self.refuses(openai.BadRequestError, lambda: self.complete(extra_body={"truncate_prompt_tokens": context}), "truncate_prompt_tokens")

    def echo(self, prompt=STORY, **parameters):
        """The first token has null, as in OpenAI's own answers; the package's types do not know that."""
        return self.client.completions.create(model="stories", prompt=prompt, echo=True, **parameters)

    def test_echo_with_logprobs_scores_the_prompt(self):
        made = self.complete(logprobs=1, **GREEDY).choices[0]
        whole = STORY + made.text
        for max_tokens in (0, 1):
            choice = self.echo(prompt=whole, logprobs=1, temperature=0, max_tokens=max_tokens).choices[0]
            logprobs = choice.logprobs
            self.assertTrue(choice.text.startswith(whole))
            self.assertIsNone(logprobs.token_logprobs[0])
            self.assertIsNone(logprobs.top_logprobs[0])
            end = len(logprobs.tokens) - max_tokens
            count = len(made.logprobs.tokens)
            self.assertEqual(logprobs.tokens[end - count : end], made.logprobs.tokens)
            self.assertEqual(logprobs.token_logprobs[end - count : end], made.logprobs.token_logprobs)
            for token, offset in zip(logprobs.tokens[1:], logprobs.text_offset[1:], strict=True):
                self.assertTrue(choice.text.startswith(token, offset), (token, offset))

    def test_a_stream_with_echo_has_the_same_log_probabilities(self):
        whole = self.echo(logprobs=2, **GREEDY).choices[0].logprobs
        chunks = list(self.echo(logprobs=2, stream=True, **GREEDY))
        lists = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices and chunk.choices[0].logprobs]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual([value for one in lists for value in getattr(one, name)], getattr(whole, name))

    def test_vllms_prompt_logprobs(self):
        choice = self.complete(extra_body={"prompt_logprobs": 3}, max_tokens=1).choices[0]
        echo = self.echo(logprobs=3, max_tokens=0).choices[0].logprobs
        places = choice.model_extra["prompt_logprobs"]
        self.assertIsNone(places[0])
        for place, token, value in zip(places[1:], echo.tokens[1:], echo.token_logprobs[1:], strict=True):
            own = next(iter(place.values()))
            self.assertEqual((own["decoded_token"], own["logprob"]), (token, value))
            ranks = [of["rank"] for of in place.values() if of["rank"] is not None]
            self.assertEqual(sorted(ranks), [1, 2, 3])
        chat = self.chat("Hello", extra_body={"prompt_logprobs": 0}, max_tokens=1)
        self.assertEqual(len(chat.model_extra["prompt_logprobs"]), chat.usage.prompt_tokens)
        self.refuses(openai.BadRequestError, lambda: self.complete(extra_body={"prompt_logprobs": 21}), "prompt_logprobs")
        self.refuses(openai.BadRequestError, lambda: self.echo(extra_body={"prompt_logprobs": 1}, stream=True), "prompt_logprobs")

    def test_chats_and_streams(self):
        answer = self.chat("Tell me about a fox.", temperature=0, max_completion_tokens=20)
        chunks = list(
            self.client.chat.completions.create(
                model="stories", messages=[{"role": "user", "content": "Tell me about a fox."}], temperature=0,
                max_completion_tokens=20, stream=True, stream_options={"include_usage": True},
            )
        )  # fmt: skip
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk.model_dump(exclude_unset=True))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, answer.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.total_tokens, answer.usage.total_tokens)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")

    def test_a_message_may_be_parts_of_text(self):
        parts = [{"type": "text", "text": "Tell me "}, {"type": "text", "text": "about a fox."}]
        self.assertEqual(
            self.chat(parts, **GREEDY).choices[0].message.content,
            self.chat("Tell me about a fox.", **GREEDY).choices[0].message.content,
        )

    def test_a_chat_has_log_probabilities(self):
        choice = self.chat("Hello", logprobs=True, **GREEDY).choices[0]
        self.assertEqual("".join(token.token for token in choice.logprobs.content), choice.message.content)
        for token in choice.logprobs.content:
            self.assertEqual(bytes(token.bytes).decode(), token.token)

    def test_n_and_seed_give_what_they_gave_before(self):
        first, second = (self.chat("Tell me a story.", n=3, seed=11, temperature=1, max_tokens=40) for _ in range(2))
        texts = [[choice.message.content for choice in answer.choices] for answer in (first, second)]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(len(set(texts[0])), 3)

    def test_what_is_wrong_is_the_clients_own_error(self):
        self.refuses(openai.BadRequestError, lambda: self.complete(temperature=-1), "temperature")
        self.refuses(openai.BadRequestError, lambda: self.chat("x", tools=[{"type": "function", "function": {"name": "f"}}]), "tools")
        self.refuses(openai.BadRequestError, lambda: self.chat("x", response_format={"type": "xml"}), "response_format.type")
        image = [{"type": "image_url", "image_url": {"url": "data:"}}]
        self.refuses(openai.BadRequestError, lambda: self.chat(image), "messages[0].content[0].type")
        error = self.refuses(openai.BadRequestError, lambda: self.complete(prompt="x " * 4000), "prompt")
        self.assertEqual(error.code, "context_length_exceeded")
        self.refuses(openai.NotFoundError, lambda: self.client.completions.create(model="gpt", prompt="x"), "model")
        wrong = openai.OpenAI(base_url=self.client.base_url, api_key="wrong", max_retries=0)
        self.addCleanup(wrong.close)
        self.refuses(openai.AuthenticationError, lambda: wrong.models.list())

    def respond(self, said="Tell me a story.", **parameters):
        raw = self.client.responses.with_raw_response.create(model="stories", input=said, **parameters)
        Response.model_validate(json.loads(raw.text if isinstance(raw.text, str) else raw.text()))
        return raw.parse()

    def test_a_response_is_what_the_chat_says(self):
        said = self.chat("Tell me a story.", **GREEDY)
        answer = self.respond(temperature=0, max_output_tokens=24)
        self.assertEqual(answer.output_text, said.choices[0].message.content)
        self.assertEqual(answer.usage.input_tokens, said.usage.prompt_tokens)
        self.assertEqual(answer.usage.output_tokens, said.usage.completion_tokens)
        self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        whole = self.respond(temperature=0)
        self.assertEqual((whole.status, whole.incomplete_details), ("completed", None))

    def test_a_response_takes_instructions_and_a_conversation(self):
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Tell me a story."},
        ]
        said = self.client.chat.completions.create(model="stories", messages=messages, **GREEDY)
        answered = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}
        answered["content"] = [{"type": "output_text", "text": "Hello.", "annotations": []}]
        turns = [messages[1], answered, {"role": "user", "content": [{"type": "input_text", "text": "Tell me a story."}]}]
        answer = self.respond(turns, instructions="Be brief.", temperature=0, max_output_tokens=24)
        self.assertEqual(answer.output_text, said.choices[0].message.content)
        self.assertEqual(answer.instructions, "Be brief.")

    def test_a_response_comes_as_events(self):
        whole = self.respond(temperature=0, max_output_tokens=24)
        with self.client.responses.stream(model="stories", input="Tell me a story.", temperature=0, max_output_tokens=24) as stream:
            events = list(stream)
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        names = [event.type.removeprefix("response.") for event in events]
        deltas = names.count("output_text.delta")
        begin = ["created", "in_progress", "output_item.added", "content_part.added"]
        end = ["output_text.done", "content_part.done", "output_item.done", "incomplete"]
        self.assertEqual(names, begin + ["output_text.delta"] * deltas + end)
        self.assertGreater(deltas, 10)
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        final = events[-1].response
        self.assertEqual(final.output_text, whole.output_text)
        self.assertEqual(final.usage.total_tokens, whole.usage.total_tokens)

    def test_each_event_of_a_response_is_one_of_the_clients_types(self):
        event_type = pydantic.TypeAdapter(ResponseStreamEvent)
        events = self.client.responses.create(model="stories", input="Tell me a story.", max_output_tokens=8, stream=True)
        types = [type(event_type.validate_python(event.model_dump(exclude_unset=True))) for event in events]
        self.assertEqual((types[0], types[-1]), (ResponseCreatedEvent, ResponseIncompleteEvent))
        self.assertIn(ResponseTextDeltaEvent, types)

    def test_a_response_can_be_json(self):
        schema = {"type": "object", "properties": {"b": {"type": "boolean"}, "a": {"type": "null"}}, "required": ["b", "a"]}
        text = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}
        answer = self.respond(text=text)
        self.assertEqual(list(json.loads(answer.output_text)), ["b", "a"])
        self.assertEqual(answer.text.format.type, "json_schema")
        wrong = {"format": {"type": "json_schema", "name": "answer", "schema": {"not": {}}}}
        self.refuses(openai.BadRequestError, lambda: self.respond(text=wrong), "text.format")

    def test_a_response_without_text_is_refused_by_name(self):
        asked = {
            "previous_response_id": "resp_1",
            "reasoning": {"effort": "low"},
            "background": True,
            "store": True,
            "truncation": "auto",
            "include": ["message.output_text.logprobs"],
            "top_logprobs": 3,
        }
        for name, value in asked.items():
            error = self.refuses(openai.BadRequestError, lambda: self.respond(**{name: value}), name)
            self.assertEqual(error.code, "unsupported_parameter")
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]
        self.refuses(openai.BadRequestError, lambda: self.respond(image), "input[0].content[0].type")
        self.refuses(openai.BadRequestError, lambda: self.respond([{"type": "computer_call"}]), "input[0].type")
        self.refuses(openai.BadRequestError, lambda: self.respond(tools=[{"type": "web_search"}]), "tools[0].type")
        self.refuses(openai.BadRequestError, lambda: self.respond(""), "input")
        self.refuses(openai.BadRequestError, lambda: self.respond(max_output_tokens=0), "max_output_tokens")

    def test_a_stream_that_is_left_ends(self):
        stream = self.client.completions.create(
            model="stories", prompt=STORY, max_tokens=1900, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        stream.close()
        self.assertIn("reason=gone", self.server.wait_for("reason=gone"))


if __name__ == "__main__":
    print("openai", openai.__version__)
    unittest.main()
