#!/usr/bin/env python3
"""Checks that includes go one way between the layers (docs/architecture.md).

vm <- instructions <- scheduler <- models <- engine; the profiler knows vm, instructions and scheduler, and only the
engine knows the profiler. Public headers, in engine/include, include only each other. A family of models is known in its
own folder and in the table of architectures. Prints each breach as file:line: what, and exits with 1 if there is one.

Usage: tools/check_layers.py [ROOT]
"""

import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

# What a layer may include from, itself among them.
ALLOWED = {
    "vm": {"vm"},
    "instructions": {"vm", "instructions"},
    "scheduler": {"vm", "instructions", "scheduler"},
    "models": {"vm", "instructions", "scheduler", "models"},
    "engine": {"vm", "instructions", "scheduler", "models", "profiler", "engine"},
    "profiler": {"vm", "instructions", "scheduler", "profiler"},
}
# Folders that only some files may include from, beside their own.
PRIVATE = {Path("models/llama"): {Path("models/architectures.cc")}}
# Folders whose code is built on the layers; no layer includes from them.
OUTSIDE = {"tests", "benchmarks", "examples", "tools"}
PUBLIC_HEADERS = Path("engine/include")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".def"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


class Breach(NamedTuple):
    path: Path  # relative to the root
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def without_comments(text: str) -> str:
    """Blanks /* */ comments and keeps their line breaks, so that line numbers stay right."""
    return COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def owner(root: Path, includer: Path, name: str) -> str | None:
    """The layer or folder that an include names; None for the standard library and other projects."""
    beside = (root / includer.parent / name).resolve()
    if beside.is_file() and beside.is_relative_to(root):
        return beside.relative_to(root).parts[0]
    top = Path(name).parts[0]
    if top == "serval":  # the installed name of a public header
        return "engine"
    return top if top in ALLOWED or top in OUTSIDE else None


def is_private(root: Path, includer: Path, name: str) -> bool:
    """Whether an include names a file of a folder that is not for the includer."""
    target = next((p for p in (root / includer.parent / name, root / name) if p.is_file()), root / name).resolve()
    return any(
        target.is_relative_to(root / folder) and not includer.is_relative_to(folder) and includer not in allowed
        for folder, allowed in PRIVATE.items()
    )


def breaches_of(root: Path, path: Path) -> Iterator[Breach]:
    layer = path.parts[0]
    public = path.is_relative_to(PUBLIC_HEADERS)
    text = without_comments((root / path).read_text(encoding="utf-8"))
    for match in INCLUDE.finditer(text):
        name = match.group(1) or match.group(2)
        line = text.count("\n", 0, match.start()) + 1
        target = owner(root, path, name)
        if target is not None and target not in ALLOWED[layer]:
            may = ", ".join(sorted(ALLOWED[layer] - {layer})) or "no other layer"
            yield Breach(path, line, f"{layer} includes {name} of {target}; it may include from {may}")
        elif public and target is not None and not name.startswith("serval/"):
            yield Breach(path, line, f"a public header includes {name}, which is not installed")
        elif is_private(root, path, name):
            yield Breach(path, line, f"{name} is private to its folder; models/model.h is the way to a model")


def check(root: Path) -> tuple[int, list[Breach]]:
    """Number of files read, and the breaches in order of path and line."""
    root = root.resolve()
    files = sorted(
        file.relative_to(root)
        for layer in ALLOWED
        for file in (root / layer).rglob("*")
        if file.suffix in SUFFIXES and file.is_file()
    )
    return len(files), [breach for file in files for breach in breaches_of(root, file)]


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent
    num_files, breaches = check(root)
    for breach in breaches:
        print(breach)
    if num_files == 0:
        print(f"{root}: no layer with source files is here", file=sys.stderr)
        return 2
    print(f"{num_files} files, {len(breaches)} breaches of the layering")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
