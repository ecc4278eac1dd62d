#!/usr/bin/env python3
"""Inserts the code blocks of pages into copies of the files that they extend.

A comment before each block of C++ gives its position:

    <!-- code: PATH -->                        the block is the whole file
    <!-- code: PATH, at the end -->            after the last line of the file
    <!-- code: PATH, before "LINE" -->         before the first line that begins with these words
    <!-- code: PATH, after "LINE" -->          after that line
    <!-- code: PATH, at the end of "LINE" -->  before the last return of the function that this line begins

Several blocks may extend one file. A block of C++ without such a comment is an error, and so is a missing LINE.

Usage: extract.py ROOT OUTPUT PAGE...     prints the written files, relative to OUTPUT
"""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- code: (?P<place>[^\n]+?) -->\n+)?^```cpp\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r'(?P<path>[\w./]+)(?:, (?P<how>at the end of|at the end|before|after)(?: "(?P<line>.+)")?)?')


def line_of(lines: list[str], start: str, path: str) -> int:
    for number, line in enumerate(lines):
        if line.startswith(start):
            return number
    sys.exit(f"extract.py: {path} has no line that begins with: {start}")


def insert(lines: list[str], code: list[str], how: str, start: str, path: str) -> list[str]:
    if how == "at the end":
        return lines + code
    at = line_of(lines, start, path)
    if how == "before":
        code = [*code, "\n"]
    elif how == "after":
        at += 1
    elif how == "at the end of":
        end = at + line_of(lines[at:], "}", path)
        at = max(number for number in range(at, end) if lines[number].lstrip().startswith("return"))
    return lines[:at] + code + lines[at:]


def place_blocks(page: Path, root: Path, files: dict[str, list[str]]) -> None:
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["place"] is None:
            sys.exit(f"extract.py: {page.name}: no comment says where this block belongs:\n{block['code']}")
        place = PLACE.fullmatch(block["place"])
        if place is None:
            sys.exit(f"extract.py: {page.name}: expected PATH, or PATH and a place; found: {block['place']}")
        code = block["code"].splitlines(keepends=True)
        path = place["path"]
        if place["how"] is None:
            files[path] = code
            continue
        lines = files.get(path) or (root / path).read_text(encoding="utf-8").splitlines(keepends=True)
        files[path] = insert(lines, code, place["how"], place["line"] or "", path)


def main() -> None:
    root, output, *pages = (Path(argument) for argument in sys.argv[1:])
    files: dict[str, list[str]] = {}
    for page in pages:
        place_blocks(page, root, files)
    for path, lines in files.items():
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        text = "".join(lines)
        if not (output / path).exists() or (output / path).read_text(encoding="utf-8") != text:
            (output / path).write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
