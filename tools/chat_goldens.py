#!/usr/bin/env python3
"""Records what `transformers` writes for conversations with the chat templates of the tests.

    python3 tools/chat_goldens.py [tests/data/chat_templates]

Every NAME.jinja there is applied to every conversation made here. The answers go to goldens.json, with the versions of
transformers and Jinja; null stands for a template that raises. The time is always NOW.

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
                "place": {"type": "string", "description": "city, \"country\""},
                "days": {"type": "integer"},
                "units": {"type": ["string", "number"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["place"],
        },
    },
}
SEARCH = {"type": "function", "function": {"name": "search", "description": "Über <all>", "parameters": {"type": "object", "properties": {}}}}


def call(name, **arguments):
    return {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations(rng):
    system = {"role": "system", "content": "You tell stories."}
    user = {"role": "user", "content": "Weather in Köln?"}
    asks = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", place="Köln", days=2)]}
    tool = {"role": "tool", "tool_call_id": "abcdefghi", "content": "{\"sky\": \"grey\"}"}
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
        texts = []
        for case in cases:
            more = {k: v for k, v in case.items() if k != "messages"}
            try:
                text = tokenizer.apply_chat_template(case["messages"], chat_template=template, tokenize=False, **more)
            except (jinja2.exceptions.TemplateError, TypeError):
                text = None
            texts.append(text)
        out["texts"][path.stem] = texts
    (folder / "goldens.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
