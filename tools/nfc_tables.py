#!/usr/bin/env python3
"""Writes models/tokenizer/nfc_tables.cc: the Unicode data that NFC needs (Unicode Standard Annex #15), from Python's.

    python3 tools/nfc_tables.py && tools/check_format.sh --fix

The tables in the tree are of Unicode 14.0.0 (Python 3.11), the version of PCRE2 10.42's.
"""

import pathlib
import sys
import unicodedata

OUT = pathlib.Path(__file__).resolve().parent.parent / "models" / "tokenizer" / "nfc_tables.cc"
HANGUL = range(0xAC00, 0xD7A4)


def decompositions():
    """(code, first, second, composes): canonical, one step; second is 0 where there is none."""
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code))
        if not parts or parts.startswith("<") or code in HANGUL:
            continue
        first, second = (*(int(p, 16) for p in parts.split()), 0)[:2]
        composes = second != 0 and unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code)
        yield code, first, second, composes


def classes():
    """(first, last, class) of code points whose combining class is not 0."""
    ranges = []
    for code in range(0x110000):
        of_code = unicodedata.combining(chr(code))
        if of_code == 0:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == of_code:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, of_code])
    return ranges


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"Python has Unicode {unicodedata.unidata_version}, the tables are of 14.0.0")
    pairs = ", ".join(f"{{0x{a:X}, 0x{b:X}, 0x{c:X}, {str(d).lower()}}}" for a, b, c, d in decompositions())
    ranges = ", ".join(f"{{0x{a:X}, 0x{b:X}, {c}}}" for a, b, c in classes())
    OUT.write_text(
        "// Written by tools/nfc_tables.py from the data of Unicode 14.0.0.\n"
        '#include "models/tokenizer/nfc_tables.h"\n\n'
        "namespace serval {\nnamespace {\n\n"
        f"constexpr CanonicalDecomposition kDecompositions[] = {{{pairs}}};\n\n"
        f"constexpr CombiningRange kCombining[] = {{{ranges}}};\n\n"
        "}  // namespace\n\n"
        "std::span<const CanonicalDecomposition> canonical_decompositions() {\n  return kDecompositions;\n}\n"
        "std::span<const CombiningRange> combining_ranges() {\n  return kCombining;\n}\n\n"
        "}  // namespace serval\n"
    )


if __name__ == "__main__":
    main()
