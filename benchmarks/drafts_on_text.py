#!/usr/bin/env python3
"""Tokens a pass with drafts by n-grams: ten prompts that ask a chat model to repeat, edit or continue a given text.

usage: benchmarks/drafts_on_text.py MODEL [--serval build/bin/serval] [--tokens 160] [FLAGS of `serval generate`]...

The answers are greedy and the same with and without drafts. A pass without drafts gives one token. The model's template is
ChatML (SmolLM2, Qwen2.5). Passes that read the prompt are not counted. The exit code is 1 if an answer changes.
"""

import argparse
import re
import subprocess
import sys

LETTER = """Dear Anna, thank you for your letter of the third of May. We were glad to hear that the garden is doing well and that the \
apple trees are in bloom. We will come to see you in June, when the children have their holidays. Yours, Peter"""
CODE = """def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("width and height must not be negative")
    return width * height


def volume(width, height, depth):
    if width < 0 or height < 0 or depth < 0:
        raise ValueError("width, height and depth must not be negative")
    return width * height * depth
"""
LIST = "apples: 3\npears: 5\nplums: 12\ncherries: 40\nbread: 2\nmilk: 4\nbutter: 1\neggs: 10"
FACTS = """The Amazon river is about 6,400 km long. It flows through Peru, Colombia and Brazil. Its basin covers about 7 million square \
kilometres, which is the largest basin of any river. About one fifth of all river water that flows into the oceans comes from it."""
VERSE = "One man went to mow, went to mow a meadow.\nTwo men went to mow, went to mow a meadow.\nThree men went to mow, went to mow a meadow."

PROMPTS = [
    f"Repeat this letter word for word:\n\n{LETTER}",
    f"Copy the following text exactly, without any change:\n\n{FACTS}",
    f"Write this code again, unchanged:\n\n{CODE}",
    f"Repeat this list, one item a line:\n\n{LIST}",
    f"Write this letter again, but to Maria instead of Anna:\n\n{LETTER}",
    f"Rename the parameter width to w in this code and write all of it again:\n\n{CODE}",
    f"Add 'honey: 1' at the end of this list and write the whole list:\n\n{LIST}",
    f"Continue this song up to ten men:\n\n{VERSE}",
    f"Write the first sentence of this text, then the whole text:\n\n{FACTS}",
    f"Quote the sentences of this text as a numbered list:\n\n{FACTS}",
]
DRAFTS = re.compile(r"drafts: (\d+) tokens in (\d+) passes, ([\d.]+) % accepted; ([\d.]+) tokens a pass")
ANSWER = re.compile(r"generated (\d+) tokens?")


def generate(options, flags, prompt):
    text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    command = [options.serval, "generate", "-m", options.model, "--special", "--temp", "0", "-n", str(options.tokens), "-p", text]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"serval generate: exit code {done.returncode}: {done.stderr.strip()}")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--serval", default="build/bin/serval")
    parser.add_argument("--tokens", type=int, default=160)
    options, flags = parser.parse_known_args()
    ratios = []
    for prompt in PROMPTS:
        plain = generate(options, flags, prompt)
        drafted = generate(options, [*flags, "--spec", "ngram"], prompt)
        if drafted.stdout != plain.stdout:
            sys.exit(f"the answer changes: {prompt.splitlines()[0]}\n--- without drafts\n{plain.stdout}\n--- with\n{drafted.stdout}")
        found = DRAFTS.search(drafted.stderr)
        tokens = int(ANSWER.findall(drafted.stderr)[-1])
        accepted = round(int(found[2]) * (float(found[4]) - 1)) if found else 0
        ratios.append(tokens / max(tokens - accepted, 1))
        print(f"{ratios[-1]:.2f} tokens a pass, {tokens:4} tokens: {prompt.splitlines()[0]}", flush=True)
    print(f"{sum(ratios) / len(ratios):.2f} tokens a pass, the mean of {len(ratios)} prompts")


if __name__ == "__main__":
    main()
