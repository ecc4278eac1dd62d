#!/usr/bin/env python3
"""Checks that includes go one way between the layers (docs/architecture.md).

vm <- instructions <- scheduler <- models <- engine; the profiler knows vm, instructions and scheduler, and only the
engine knows the profiler. Kernels of their own (kernels) know vm alone. Inside a layer, some rooms (folders) know only the rooms that are listed for them. Public headers,
in engine/include, include only each other. A family of models is known in its own folder and in the table of architectures,
the command line in its own folder. Code for one GPU architecture stands in folders named for it (sm90): few other files
include from them, and no other file has PTX that older GPUs do not know (docs/add_an_architecture.md). Prints each breach
as file:line: what, and exits with 1 if there is one.

Usage: tools/check_layers.py [ROOT]
"""

import re
import sys
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple

# The layers that a layer may include from, itself among them.
ALLOWED = {
    "vm": {"vm"},
    "instructions": {"vm", "instructions"},
    "scheduler": {"vm", "instructions", "scheduler"},
    "models": {"vm", "instructions", "scheduler", "models"},
    "engine": {"vm", "instructions", "scheduler", "models", "profiler", "engine"},
    "profiler": {"vm", "instructions", "scheduler", "profiler"},
    "kernels": {"vm", "kernels"},
}
# The folders or files of its own layer that a room may include, beside itself.
ROOMS = {
    "vm/base": set(),
    "vm/layout": {"vm/base", "vm/dtype.h", "vm/machine.h"},
    "instructions/sample/rank": {"instructions/common"},
    "instructions/sample/row": {"instructions/common", "instructions/sample/rank"},
    "instructions/sample/draw": {"instructions/common", "instructions/sample/rank", "instructions/sample/row"},
    "profiler/trace": set(),
    "profiler/sim": {"profiler/trace"},
    "profiler/analysis": {"profiler/trace"},
    "profiler/chrome": {"profiler/trace", "profiler/analysis"},
    "profiler/report": {"profiler/trace", "profiler/analysis", "profiler/sim"},
    "engine/device": set(),
    "engine/compile": set(),
    "engine/text": set(),
    "engine/answer": set(),
    "engine/grammar": {"engine/answer"},
    "engine/core": {"engine/text", "engine/answer", "engine/grammar", "engine/backend", "engine/compile"},
    "engine/server/http": set(),
    "engine/server/api": {"engine/server/http", "engine/answer"},
    "engine/server/metrics": {"engine/server/api"},
    "engine/server/page": {"engine/server/http"},
    "engine/server/service": {
        "engine/server/http",
        "engine/server/api",
        "engine/server/metrics",
        "engine/server/page",
        "engine/answer",
    },
    "engine/cli/output": set(),
    "engine/cli/flags": {
        "engine/cli/output",
        "engine/compile",
        "engine/core",
        "engine/grammar",
        "engine/runtime",
    },
    "engine/cli/input": {"engine/cli/output", "engine/cli/flags"},
}
# Folders that only some files may include from, beside their own, and how else to get what is there.
PRIVATE = {
    "models/llama": ({"models/architectures.cc"}, "models/model.h is the way to a model"),
    "engine/server": ({"engine/cli/commands/serve.cc"}, "the engine does not know who asks"),
    "engine/cli": (set(), "the engine does not know the command line"),
}
# A folder of one architecture, and the only files outside such folders that include from them.
ARCHITECTURE = re.compile(r"sm\d+")
CHOOSE_ARCHITECTURE = {
    "instructions/kernels.cc",
    "instructions/kernels.h",
    "vm/device/architecture.cuh",
    "vm/device/bound_rank.h",
    "vm/ptx/ptx.cuh",
}
# Layers that are written for one architecture as a whole.
FOR_ONE_ARCHITECTURE = {"kernels"}
# In assembly: instructions that GPUs before sm_90 do not have, or that only one architecture has.
PTX_OF_ONE = re.compile(
    r'"[^"\n]*\b(wgmma|tcgen05|setmaxnreg|stmatrix|cp\.async\.bulk|cp\.reduce\.async|expect_tx|try_wait'
    r"|fence\.proxy|fence\.mbarrier_init)\b"
)
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


def target_of(root: Path, includer: Path, name: str) -> Path | None:
    """The file that an include names, relative to the root; None for the standard library and other projects."""
    beside = (root / includer.parent / name).resolve()
    if beside.is_file() and beside.is_relative_to(root):
        return beside.relative_to(root)
    top = Path(name).parts[0]
    if top == "serval":  # the installed name of a public header
        return PUBLIC_HEADERS / name
    return Path(name) if top in ALLOWED or top in OUTSIDE else None


def is_among(path: Path, places: Iterable[str]) -> bool:
    """True if a file is one of these, or in one of these folders."""
    return any(path.is_relative_to(place) for place in places)


def breach_of_rooms(includer: Path, target: Path) -> str | None:
    """Describes the fault of an include inside a layer, if it has one."""
    for room, allowed in ROOMS.items():
        if includer.is_relative_to(room) and not is_among(target, {room, str(PUBLIC_HEADERS)} | allowed):
            may = ", ".join(sorted(allowed)) or "nothing else"
            return f"{room} includes {target}; of its layer it may include {may}"
    return None


def breach_of_privacy(includer: Path, target: Path) -> str | None:
    """Describes the fault of an include of a private file, if it has one."""
    for folder, (allowed, instead) in PRIVATE.items():
        if target.is_relative_to(folder) and not is_among(includer, {folder} | allowed):
            return f"{target} is private to its folder; {instead}"
    return None


def is_of_architecture(path: Path) -> bool:
    return path.parts[0] in FOR_ONE_ARCHITECTURE or any(ARCHITECTURE.fullmatch(part) for part in path.parts)


def breach_of_architecture(includer: Path, target: Path) -> str | None:
    """Describes the fault of an include of one architecture's file, if it has one."""
    if is_of_architecture(includer) or not is_of_architecture(target) or is_among(includer, CHOOSE_ARCHITECTURE):
        return None
    return f"{target} is code of one architecture; include vm/ptx/ptx.cuh or vm/device/architecture.cuh"


def ptx_of_one_architecture(path: Path, text: str) -> Iterator[Breach]:
    if is_of_architecture(path):
        return
    for match in PTX_OF_ONE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Breach(path, line, f"{match.group(1)} is PTX of one architecture; it belongs in a folder such as sm90")


def breaches_of(root: Path, path: Path) -> Iterator[Breach]:
    layer = path.parts[0]
    public = path.is_relative_to(PUBLIC_HEADERS)
    text = without_comments((root / path).read_text(encoding="utf-8"))
    yield from ptx_of_one_architecture(path, text)
    for match in INCLUDE.finditer(text):
        name = match.group(1) or match.group(2)
        line = text.count("\n", 0, match.start()) + 1
        target = target_of(root, path, name)
        if target is None:
            continue
        if target.parts[0] not in ALLOWED[layer]:
            may = ", ".join(sorted(ALLOWED[layer] - {layer})) or "no other layer"
            yield Breach(path, line, f"{layer} includes {name} of {target.parts[0]}; it may include from {may}")
        elif public and not name.startswith("serval/"):
            yield Breach(path, line, f"a public header includes {name}, which is not installed")
        elif target.parts[0] == layer and (what := breach_of_rooms(path, target)):
            yield Breach(path, line, what)
        elif what := breach_of_privacy(path, target) or breach_of_architecture(path, target):
            yield Breach(path, line, what)


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
