#!/usr/bin/env python3
"""Checks that no C++ or CUDA function is longer than the longest there is today: functions get shorter here, not longer.

A function's length is its lines from its opening brace to its closing one, both included; a lambda counts for the function that
it is in. Where the longest gets shorter, its limit follows. Prints each breach as file:line: what, and exits with 1 if there
is one; --longest N prints the longest instead.

Usage: tools/check_functions.py [ROOT] [--longest N]
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

# Lines, by where a function is: what ships, and what tests or measures it.
LIMITS = {"shipped": 70, "tests": 129}
TEST_FOLDERS = ("tests", "benchmarks")
FOLDERS = ("vm", "instructions", "scheduler", "models", "engine", "profiler", "kernels", "examples", *TEST_FOLDERS)
SUFFIXES = (".h", ".cc", ".cuh", ".cu")

# Comments, strings and preprocessor lines become blanks: of them only the line ends count.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"""
    r"""|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b|\bextern$")
PARENTHESES_OF_SCOPES = re.compile(r"\btemplate\s*<.*?>(?=\s*(?:class|struct|union)\b)|\b(?:alignas|__align__)\s*\([^()]*\)")
BEFORE_BODY = re.compile(r"(?:\)|\b(?:const|noexcept|override|final|mutable|try|volatile)|&|->[^()]*(?:\([^()]*\))?[^()]*)$")


class Function(NamedTuple):
    file: str
    line: int  # of its opening brace
    lines: int
    head: str


def without_text(source: str) -> str:
    return NO_CODE.sub(lambda found: " " + "\n" * found[0].count("\n"), source)


def opens_scope(head: str) -> bool:
    """True if declarations follow the brace after `head`."""
    bare = PARENTHESES_OF_SCOPES.sub("", head)
    return SCOPE.search(bare) is not None and "(" not in bare and "=" not in bare


def opens_body(head: str) -> bool:
    """True if a function's body follows. The other braces there are initialisers of variables and members."""
    before = head.split("(")[0]
    is_declaration = "(" in head and ("=" not in before or "operator" in before)
    return is_declaration and BEFORE_BODY.search(head) is not None


def functions(file: str, source: str) -> Iterator[Function]:
    text = without_text(source)
    scopes, head, line = [], "", 1  # of an open brace: what is behind it, its line and the head before it
    for token in re.finditer(r"[{};\n]|[^{};\n]+", text):
        part = token[0]
        inside = scopes[-1][0] if scopes else "scope"
        if part == "\n":
            line += 1
            head += " "
        elif part == "{":
            before = head.strip()
            if inside != "scope":
                kind = "block"
            elif opens_scope(before):
                kind = "scope"
            else:
                kind = "body" if opens_body(before) else "initialiser"
            scopes.append((kind, line, before))
            head = ""
        elif part == "}":
            if not scopes:
                continue
            kind, begin, before = scopes.pop()
            if kind == "body":
                yield Function(file, begin, line - begin + 1, before)
            # A member's initialiser belongs to the head of the function whose body comes.
            head = before + "{}" if kind == "initialiser" else ""
        elif part == ";":
            head = ""
        else:
            head += re.sub(r"\b(?:public|private|protected)\s*:", "", part)


def all_functions(root: Path) -> Iterator[Function]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield from functions(str(path.relative_to(root)), path.read_text(encoding="utf-8"))


def limit_of(function: Function) -> int:
    return LIMITS["tests" if function.file.startswith(TEST_FOLDERS) else "shipped"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parent.parent, type=Path)
    parser.add_argument("--longest", type=int, metavar="N")
    options = parser.parse_args()
    found = list(all_functions(options.root))
    if options.longest:
        for one in sorted(found, key=lambda f: -f.lines)[: options.longest]:
            print(f"{one.lines:4} {one.file}:{one.line}: {one.head[-90:]}")
        return 0
    long = [one for one in found if one.lines > limit_of(one)]
    for one in long:
        print(f"{one.file}:{one.line}: a function of {one.lines} lines; limit: {limit_of(one)}")
    if not long:
        print(f"{len(found)} functions: none too long")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
