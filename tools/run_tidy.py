#!/usr/bin/env python3
"""Runs clang-tidy over the source files of a build folder; its warnings are errors (.clang-tidy).

Most of clang-tidy's time goes into the headers of other projects, so files are read in groups, as if one file included
them all: that takes a third of the time. Where files of a group do not go together (two of them give different things
the same name in unnamed namespaces), those that have errors are read again without the others.

Usage: tools/run_tidy.py BUILD [PATH...]   PATH: only these files, or those in these folders
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES_OF_GROUP = 10
# Files of a group count as included ones, so all folders' are asked for; and to include them is right here.
OPTIONS = [
    "--quiet",
    r"--header-filter=/(vm|instructions|scheduler|models|engine|profiler|tests|examples|benchmarks)/[^:]*\.(h|cc)$",
    "--checks=-bugprone-suspicious-include",
]
ERROR = re.compile(r"^(/[^:]+):\d+:\d+: error: .*\[clang-diagnostic-error\]", re.MULTILINE)
MESSAGE = re.compile(r"^/[^:]+:\d+:\d+: (error|warning): ", re.MULTILINE)


def flags_of(command: str, directory: str) -> tuple[str, ...]:
    """What matters to clang-tidy of the command that compiles a file."""
    words = shlex.split(command)
    kept = [w for w in words if re.match(r"-[DI]|-std=|-isystem", w)]
    for option, value in zip(words, words[1:]):
        if option in ("-isystem", "-I"):
            kept.insert(kept.index(option) + 1, value)
    # Compilers' warnings are the build's business.
    return (*kept, "-w", f"-working-directory={directory}")


def read_groups(build: Path, paths: list[Path]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Flags and the files that are compiled with them, in groups."""
    by_flags = defaultdict(set)
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = Path(entry["directory"], entry["file"]).resolve()
        ours = file.suffix == ".cc" and file.is_relative_to(ROOT) and not file.is_relative_to(build)
        if ours and (not paths or any(file == p or file.is_relative_to(p) for p in paths)):
            by_flags[flags_of(entry["command"], entry["directory"])].add(str(file))
    groups = []
    seen: set[str] = set()
    for flags, of_flags in sorted(by_flags.items(), key=lambda item: -len(item[1])):
        files = sorted(of_flags - seen)
        seen.update(files)
        # Neighbours often give things the same names, so they go to different groups.
        count = -(-len(files) // FILES_OF_GROUP)
        groups += [(flags, files[i::count]) for i in range(count)]
    return groups


class Tidy:
    def __init__(self, build: Path):
        self.folder = build / "tidy"
        self.folder.mkdir(exist_ok=True)

    def check(self, name: str, flags: tuple[str, ...], files: list[str]) -> str:
        """What clang-tidy has to say of the files: nothing if they are good."""
        main = files[0]
        if len(files) > 1:
            main = str(self.folder / f"{name}.cc")
            Path(main).write_text("".join(f'#include "{file}"\n' for file in files))
        command = ["clang-tidy", *OPTIONS, main, "--", *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0 and not MESSAGE.search(done.stdout):
            return ""
        failing = set(ERROR.findall(done.stdout))
        if not failing or len(files) == 1:
            return done.stdout + (done.stderr if not done.stdout else "")
        alone = [f for f in files[1:] if f in failing] or files[len(files) // 2 :]
        others = [f for f in files if f not in alone]
        return self.check(f"{name}a", flags, others) + self.check(f"{name}b", flags, alone)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="a build folder that is configured")
    parser.add_argument("paths", type=Path, nargs="*", help="files or folders; all by default")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    groups = read_groups(build, [path.resolve() for path in arguments.paths])
    if not groups:
        sys.exit(f"run_tidy.py: {build}: no source file of these paths is compiled there")
    tidy = Tidy(build)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(lambda g: tidy.check(str(g[0]), *g[1]), enumerate(groups)))
    print("".join(found), end="")
    failed = sum(1 for text in found if text)
    print(f"run_tidy.py: {sum(len(files) for _, files in groups)} files in {len(groups)} groups, {failed} with warnings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
