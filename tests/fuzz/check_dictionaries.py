#!/usr/bin/env python3
"""Checks that libFuzzer can read every line of the fuzzers' dictionaries. A single bad line would stop the target.

usage: tests/fuzz/check_dictionaries.py [FOLDER]
"""

import pathlib
import re
import sys

# https://llvm.org/docs/LibFuzzer.html#dictionaries. The only escapes are \\, \" and \xHH.
ENTRY = re.compile(rb'(?:[^"\s]*=)?"(?:[ !#-\[\]-~]|\\[\\"]|\\x[0-9A-Fa-f]{2})+"\s*')
EMPTY = re.compile(rb"\s*(?:#.*)?")


def wrong_lines(path):
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not ENTRY.fullmatch(line) and not EMPTY.fullmatch(line):
            yield f"{path}:{number}: {line.decode(errors='replace')}: not an entry that libFuzzer can read"


def main(arguments):
    folder = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent / "dictionaries")
    wrong = [line for path in sorted(folder.glob("*.dict")) for line in wrong_lines(path)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
