#!/usr/bin/env python3
"""Every line of the fuzzers' dictionaries is one that libFuzzer reads: it refuses a file, and with it the target, for one
that is not.

usage: tests/fuzz/check_dictionaries.py [FOLDER]
"""

import pathlib
import re
import sys

# https://llvm.org/docs/LibFuzzer.html#dictionaries: of escapes, it knows \\, \" and \xHH.
ENTRY = re.compile(rb'(?:[^"\s]*=)?"(?:[ !#-\[\]-~]|\\[\\"]|\\x[0-9A-Fa-f]{2})+"\s*')
EMPTY = re.compile(rb"\s*(?:#.*)?")


def wrong_lines(path):
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not ENTRY.fullmatch(line) and not EMPTY.fullmatch(line):
            yield f"{path}:{number}: {line.decode(errors='replace')}: not an entry as libFuzzer reads it"


def main(arguments):
    folder = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent / "dictionaries")
    wrong = [line for path in sorted(folder.glob("*.dict")) for line in wrong_lines(path)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
