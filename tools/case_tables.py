#!/usr/bin/env python3
"""Writes models/jinja/case_tables.cc: what Python's str knows about letters and digits, from Python itself.

    python3 tools/case_tables.py && tools/check_format.sh --fix

The tables in the tree are of Unicode 14.0.0 (Python 3.11), as those of tools/nfc_tables.py.
"""

import pathlib
import sys
import unicodedata

OUT = pathlib.Path(__file__).resolve().parent.parent / "models" / "jinja" / "case_tables.cc"
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def ranges(holds):
    """[first, last] of code points of which `holds`."""
    found = []
    for code in CODES:
        if not holds(code):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def runs(change):
    """[first, last, step, difference] of characters that become another one."""
    found = []
    for code in CODES:
        to = change(chr(code))
        if len(to) != 1 or ord(to) == code:
            continue
        difference = ord(to) - code
        last = found[-1] if found else None
        step = code - last[1] if last else 0
        if last and last[3] == difference and step <= 2 and last[2] in (0, step):
            last[1], last[2] = code, step
        else:
            found.append([code, code, 0, difference])
    return [[first, last, step or 1, difference] for first, last, step, difference in found]


def specials(change):
    """[code, [first, second, third]] of characters that become several; 0: none."""
    return [[code, [*map(ord, to), 0][:3]] for code in CODES if len(to := change(chr(code))) > 1]


def is_ignorable(code):
    """A sigma at the end of a word is another letter; whether one is does not depend on such a character before it."""
    after_letter = ("a" + chr(code) + "\u03a3").lower().endswith("\u03c2")
    return after_letter and not (chr(code) + "\u03a3").lower().endswith("\u03c2")


def initialiser(value):
    if isinstance(value, list):
        return "{" + ", ".join(map(initialiser, value)) + "}"
    return str(value) if value < 0 else f"0x{value:X}"


def array(kind, name, rows):
    return f"constexpr {kind} {name}[] = {initialiser(rows)};\n\n"


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"Python has Unicode {unicodedata.unidata_version}, the tables are of 14.0.0")
    properties = {
        "kAlpha": lambda code: chr(code).isalpha(),
        "kDecimal": lambda code: chr(code).isdecimal(),
        "kDigit": lambda code: chr(code).isdigit(),
        "kNumeric": lambda code: chr(code).isnumeric(),
        "kLower": lambda code: chr(code).islower(),
        "kUpper": lambda code: chr(code).isupper(),
        "kTitle": lambda code: chr(code).istitle() and not chr(code).isupper(),
        "kIgnorable": is_ignorable,
    }
    changes = {"Upper": str.upper, "Lower": str.lower, "Title": str.title}
    text = "// Written by tools/case_tables.py from the data of Unicode 14.0.0.\n"
    text += '#include "models/jinja/case_tables.h"\n\nnamespace serval::jinja {\nnamespace {\n\n'
    for name, holds in properties.items():
        text += array("CodeRange", name + "s", ranges(holds))
    for name, change in changes.items():
        text += array("CaseRun", f"k{name}Runs", runs(change))
        text += array("CaseSpecial", f"k{name}Specials", specials(change))
    text += "}  // namespace\n\nstd::span<const CodeRange> code_ranges(CharacterKind kind) {\n  switch (kind) {\n"
    for name in properties:
        text += f"    case CharacterKind::{name}:\n      return {name}s;\n"
    text += "  }\n  return {};\n}\n\nCaseTable case_table(CaseChange change) {\n  switch (change) {\n"
    for name in changes:
        text += f"    case CaseChange::k{name}:\n      return {{k{name}Runs, k{name}Specials}};\n"
    text += "  }\n  return {};\n}\n\n}  // namespace serval::jinja\n"
    OUT.write_text(text)


if __name__ == "__main__":
    main()
