#!/usr/bin/env python3
"""Records what `transformers` writes for conversations with the chat templates of the tests.

    python3 tools/chat_goldens.py [tests/data/chat_templates]

Every NAME.jinja there is applied to every conversation made here. The answers go to goldens.json, with the versions of
transformers and Jinja; null stands for a template that raises. The time is always NOW. tools.json has conversations with tools,
reasoning and continued messages, for the templates of families that call tools.

The templates were written for the tests, in the style of those that published models carry.
"""

import datetime
import json
import pathlib
import random
import sys

import jinja2
import tokenizers
import transformers
from transformers.utils import chat_template_utils

SEED = 20250117
NOW = datetime.datetime(2025, 3, 4, 15, 6, 7)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
CONVERSATIONS = 20

CONTENTS = [
    "Hi!", "  spaced \n", "Why is the sky blue?\n\nTell me.", "émoji 👩\u200d🚀 and 中文", "\u00a0\u2003x\u3000\x1c", "1 < 2 | 3 & 'quotes' \"too\"",
    "<think>\nHm.\n</think>\n\nForty-two.", "{{ not a template }} {% nor this %}", "tab\there\\and back", "</s><|im_end|>", "a" * 40, "# Title\n- one\n- two\n",
]  # fmt: skip

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place, now.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": 'city, "country"'},
                "days": {"type": "integer"},
                "units": {"type": ["string", "number"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["place"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {"name": "search", "description": "Über <all>", "parameters": {"type": "object", "properties": {}}},
}


def call(name, **arguments):
    return {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations(rng):
    system = {"role": "system", "content": "You tell stories."}
    user = {"role": "user", "content": "Weather in Köln?"}
    asks = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", place="Köln", days=2)]}
    tool = {"role": "tool", "tool_call_id": "abcdefghi", "content": '{"sky": "grey"}'}
    answer = {"role": "assistant", "content": "Grey."}
    image = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " What is this? "}, {"type": "audio"}]}
    thought = {"role": "assistant", "content": "Blue.", "reasoning_content": "\nLight scatters.\n"}
    out = [
        ([{"role": "user", "content": "Hello"}], {}),
        ([system, {"role": "user", "content": " A fox, please. "}], {}),
        ([system, user, asks, tool, answer, user], {"tools": [WEATHER, SEARCH]}),
        ([user], {"tools": [WEATHER]}),
        ([user, asks, tool, tool], {"tools": [WEATHER], "tools_in_user_message": False}),
        ([system, user, answer, user], {"tools": [SEARCH], "documents": [{"title": "a", "text": "b"}]}),
        ([image], {}),
        ([user, thought, user], {"enable_thinking": False}),
        ([{"role": "system", "content": "Be brief. /no_think"}, user, thought], {"enable_thinking": True}),
        ([user, user, answer], {"controls": {"length": "short"}, "date_string": "1 Jan 2000"}),
    ]
    while len(out) < CONVERSATIONS:
        roles = ["system"] * rng.randint(0, 1) + ["user", "assistant"] * rng.randint(1, 4)
        if rng.random() < 0.5:
            roles.append("user")
        out.append(([{"role": role, "content": rng.choice(CONTENTS)} for role in roles], {}))
    return out


TOOL_TEMPLATES = ["llama3_1_tools", "qwen2_5_tools", "qwen3_thinking", "mistral_v3_tools", "smollm2_tools"]


def random_json(rng, depth):
    """A value as tools and arguments have it: keys in no order, texts that need escapes, numbers of all kinds."""
    kind = rng.randrange(8 if depth > 0 else 6)
    if kind == 0:
        return rng.choice([True, False, None])
    if kind == 1:
        return rng.choice([0, -7, 12345678901, 2**53, -(2**63)])
    if kind == 2:
        return rng.choice([0.5, -1e-7, 1e22, 3.0, 1234.5678, 1e16])
    if kind < 6:
        return rng.choice(CONTENTS + ["", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "\u2028 \x7f"])
    if kind == 6:
        return [random_json(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return random_object(rng, depth - 1)


def random_object(rng, depth):
    keys = rng.sample(["b", "a", "zeta", "Köln", 'quo"te', "type", "1", " "], rng.randint(0, 4))
    return {key: random_json(rng, depth) for key in keys}


def random_tool(rng, name):
    properties = {key: {"type": "string", "description": rng.choice(CONTENTS), "default": random_json(rng, 1)} for key in ["to", "at", "é"]}
    parameters = {"type": "object", "properties": properties, "required": ["to"], "x-more": random_json(rng, 3)}
    function = {"name": name, "description": rng.choice(CONTENTS), "parameters": parameters}
    return {"type": "function", "function": dict(rng.sample(list(function.items()), 3))}


def tool_conversations(rng):
    """Conversations as agents have them: one call at a time, or several, with results, reasoning, and an open end."""
    out = []
    for index in range(30):
        tools = [random_tool(rng, name) for name in rng.sample(["get_weather", "search", "add-2"], rng.randint(1, 3))]
        messages = [{"role": "system", "content": "Be brief."}] * rng.randint(0, 1)
        for turn in range(rng.randint(1, 3)):
            messages.append({"role": "user", "content": rng.choice(CONTENTS)})
            calls = [call(rng.choice(tools)["function"]["name"], **random_object(rng, 3)) for _ in range(rng.choice([0, 1, 1, 2]))]
            for number, one in enumerate(calls):
                one["id"] = f"call{index:02}{turn}{number}a"
            if calls:
                asks = {"role": "assistant", "content": rng.choice(["", "I look."]), "tool_calls": calls}
                if rng.random() < 0.4:
                    asks["reasoning_content"] = "\nA tool knows.\n"
                messages.append(asks)
                messages += [{"role": "tool", "tool_call_id": one["id"], "content": rng.choice(CONTENTS)} for one in calls]
            messages.append({"role": "assistant", "content": rng.choice(CONTENTS)})
        more = {"add_generation_prompt": True}
        end = rng.randrange(3)
        if end == 0:
            more = {"add_generation_prompt": False, "continue_final_message": True}
        elif end == 1:
            messages.pop()
        if rng.random() < 0.3:
            more["enable_thinking"] = rng.choice([True, False])
        out.append({"messages": messages, "tools": tools, **more})
    return out


def rendered(tokenizer, template, case):
    more = {key: value for key, value in case.items() if key != "messages"}
    try:
        return tokenizer.apply_chat_template(case["messages"], chat_template=template, tokenize=False, **more)
    except (jinja2.exceptions.TemplateError, TypeError, ValueError):
        return None


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/chat_templates")
    chat_template_utils.datetime = FixedTime
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()), **TOKENS)
    cases = [
        {"messages": messages, "add_generation_prompt": index % 2 == 0, **more}
        for index, (messages, more) in enumerate(conversations(random.Random(SEED)))
    ]
    out = {"transformers": transformers.__version__, "jinja2": jinja2.__version__, "now": NOW.isoformat(), "tokens": TOKENS}
    out |= {"cases": cases, "texts": {}}
    for path in sorted(folder.glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        out["texts"][path.stem] = [rendered(tokenizer, template, case) for case in cases]
    (folder / "goldens.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    out["cases"] = tool_conversations(random.Random(SEED))
    out["texts"] = {}
    for name in TOOL_TEMPLATES:
        template = (folder / f"{name}.jinja").read_text(encoding="utf-8")
        out["texts"][name] = [rendered(tokenizer, template, case) for case in out["cases"]]
    (folder / "tools.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
