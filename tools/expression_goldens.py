#!/usr/bin/env python3
"""Records what Jinja writes for random expressions.

    python3 tools/expression_goldens.py > tests/data/chat_templates/expressions.json

Each case is a template and what it writes; null stands for an error. The environment is the one in which transformers
renders chat templates.
"""

import json
import random
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

SEED = 20250213
CASES = 2200
RANDOM = random.Random(SEED)

VARIABLES = {
    "name": "Ann",
    "words": ["b", "A", "c", "ä"],
    "numbers": [3, 1.5, -2, 10],
    "entry": {"b": 1, "a": "x", "C": 2.5},
    "rows": [{"n": 2, "s": "ü"}, {"n": 1, "s": "Z"}],
    "text": "Straße ΑΣ. ǆ ﬁ 12",
}
TEXTS = ["''", "'a'", "'Ab c'", "'ß'", "'ΑΣ ΣΑΣ.'", "'ÀÉ-õ'", "'ŉx ǆa'", "'123'", "'١٢'", "'²½'", "'one two'", "' \\t'", "'İI'", "name", "text"]
NUMBERS = ["0", "1", "7", "-3", "0x1F", "0b101", "0o17", "1_000", "2.5", "0.1", "-1e3", "123456789", "1e16", "3.0", "true"]
INTEGERS = ["0", "1", "7", "-3", "0x1F", "255", "1_000", "123456789", "true"]


def pick(*choices):
    return RANDOM.choice(choices)


def text():
    return RANDOM.choice(TEXTS)


def number():
    return RANDOM.choice(NUMBERS)


def integer():
    return RANDOM.choice(INTEGERS)


def value():
    return RANDOM.choice([text, number, lambda: "words", lambda: "none", lambda: "entry", lambda: "nothing"])()


def percent():
    flags = "".join(RANDOM.sample("-+ 0", RANDOM.choice([0, 0, 1, 2])))
    width = pick("", "", "1", "6", "12")
    precision = pick("", "", "", ".0", ".2", ".5")
    kind = RANDOM.choice("sdrifxXoeEgGc%s")
    argument = {"s": value, "r": value, "c": text}.get(kind, number)
    if kind in "dixXo":
        precision = ""
        argument = integer if kind in "xXo" else number
    if kind == "%":
        return "'a%%b' % ()"
    shape = RANDOM.random()
    spec = f"{flags}{width}{precision}{kind}"
    if shape < 0.6:
        return f"'[%{spec}]' % ({argument()},)"
    if shape < 0.8:
        return f"'[%{spec}|%s]' % ({argument()}, {value()})"
    return f"'[%(k){spec}]' % {{'k': {argument()}}}"


def brace():
    align = pick("", "", "<", ">", "^", "*^", "é<", "=", "0=")
    width = pick("", "", "5", "12", "05")
    kind = RANDOM.random()
    if kind < 0.3:
        return f"'{{:{align}{width}{pick('', '.2', 's')}}}'.format({text()})"
    if kind < 0.6:
        spec = f"{align}{pick('', '+', ' ')}{pick('', '#')}{width}{pick('', ',', '_')}{pick('', 'd', 'x', 'X', 'o', 'b')}"
        if "," in spec and (width == "05" or "=" in align):
            spec = spec.replace(",", "").replace("_", "")
        return f"'{{:{spec.replace('_', '')}}}'.format({integer()})"
    if kind < 0.8:
        return f"'{{:{align}{pick('', '+')}{width}{pick('.0', '.2', '.3', '')}{pick('f', 'e', 'g', '%', 'F')}}}'.format({number()})"
    return pick(
        f"'{{}} {{}}'.format({value()}, {value()})",
        f"'{{1}} {{0}}'.format({value()}, {value()})",
        f"'{{a}}{{{{}}}}'.format(a={value()})",
        f"'{{0[a]}}'.format(entry)",
        f"'{{0[1]}} {{!r}}'.format(words, {value()})",
        f"'{{!r:>8}}'.format({text()})",
        f"'{{:>{{}}}}'.format({text()}, {integer()})",
        f"'{{}} {{}}'.format({value()})",
        "'{0.n} {1}'.format(rows[0], words | length)",
    )


def method():
    name = pick("isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "istitle", "isdecimal", "isnumeric", "isascii",
                "upper", "lower", "title", "capitalize", "swapcase")  # fmt: skip
    if RANDOM.random() < 0.7:
        return f"{text()}.{name}()"
    return pick(
        f"{text()}.{pick('center', 'ljust', 'rjust')}({integer()})",
        f"{text()}.center({pick('4', '5', '8', '9')}, '*')",
        f"{text()}.zfill({pick('0', '5', '8')})",
        f"{text()}.{pick('partition', 'rpartition')}({pick(chr(39) + ' ' + chr(39), chr(39) + 'a' + chr(39))})",
        f"{text()}.strip().split({pick('', chr(39) + 'a' + chr(39))})",
    )


def filtered():
    return pick(
        f"{text()} | {pick('upper', 'lower', 'title', 'capitalize')}",
        f"numbers | {pick('sum', 'min', 'max', 'sort', 'list')}",
        f"rows | sum(attribute='n')",
        f"rows | {pick('min', 'max')}(attribute={pick(chr(39) + 'n' + chr(39), chr(39) + 's' + chr(39))})",
        f"words | {pick('min', 'max', 'sort', 'sort(reverse=true)', 'unique | list')}",
        f"[{integer()}, {integer()}] | sum(start={integer()})",
        f"{number()} | round({pick('', '1', '2')})",
        f"{number()} | round({pick('0', '1', '2')}, '{pick('common', 'ceil', 'floor')}')",
        f"entry | dictsort{pick('', '(true)', '(reverse=true)')}",
        f"'%s-%s' | format({value()}, {value()})",
        f"'%(a)s' | format(a={value()})",
        f"{text()} | center({pick('8', '9', '20')})",
        f"{value()} | {pick('string', 'length', 'first', 'int', 'float', 'abs')}",
    )


def operation():
    return pick(
        f"{number()} {pick('+', '-', '*', '/', '//', '%', '**')} {pick('2', '3', '-2', '0.5')}",
        f"{number()} {pick('<', '<=', '==', '!=', '>')} {number()}",
        f"{text()} {pick('+', '~', '*')} {value()}",
        f"{value()} is {pick('upper', 'lower', 'string', 'number', 'defined', 'none', 'sequence', 'mapping', 'integer')}",
        f"{text()}[{integer()}:{integer()}]",
    )


def template():
    expression = RANDOM.choice([percent, percent, brace, brace, method, method, filtered, filtered, operation])
    kind = RANDOM.random()
    if kind < 0.8:
        return "{{ " + expression() + " }}"
    if kind < 0.86:
        return "{% set a, b = " + expression() + ", " + value() + " %}{{ a }}|{{ b }}"
    if kind < 0.9:
        return "{{ " + expression() + ", " + value() + " }}"
    if kind < 0.95:
        return "{% for x in " + expression() + ", " + value() + " %}[{{ x }}]{% endfor %}"
    return "{% if " + expression() + " %}y{% else %}n{% endif %}"


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    cases = []
    for _ in range(CASES):
        source = template()
        try:
            out = environment.from_string(source).render(**VARIABLES)
        except Exception:
            out = None
        if out is None or len(out) < 1000 and "<generator" not in out and " at 0x" not in out:
            cases.append({"template": source, "writes": out})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    head = f'"jinja2": "{jinja2.__version__}", "python": "{sys.version.split()[0]}"'
    sys.stdout.write(f'{{{head}, "variables": {json.dumps(VARIABLES, ensure_ascii=False)}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
