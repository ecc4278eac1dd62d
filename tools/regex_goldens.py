#!/usr/bin/env python3
"""Records what Hugging Face `tokenizers` (Oniguruma) finds with patterns of every construct that Serval lets through.

    python3 tools/regex_goldens.py [tests/data/tokenizer/patterns.json]

Needs Python 3.11 for its Unicode 14, the version of PCRE2's tables: only characters that Unicode 14 knows are looked at.

    characters  ranges of code points [first, last, …]: all of Unicode 14 but the inside of large uniform blocks
    sets        patterns of one character, and those ranges of `characters` that they match
    punctuation the characters that the pre-tokenizer Punctuation cuts at
    searches    patterns and texts, and the matches that are not empty: [begin, end, …] in bytes
"""

import json
import pathlib
import random
import re
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, pre_tokenizers

SEED = 20240613
RANDOM_PATTERNS = 1500
TEXTS_A_PATTERN = 4
PROPERTIES_CC = pathlib.Path(__file__).parent.parent / "models/tokenizer/oniguruma/properties.cc"

LEFT_OUT = [(0x3500, 0x4CFF), (0x4F00, 0x9EFF), (0xAD00, 0xD6FF), (0xE010, 0xF8E0), (0x17100, 0x186FF),
            (0x20100, 0x312FF), (0xF0010, 0xFFFEF), (0x100010, 0x10FFEF)]  # fmt: skip

SETS = [
    r".", r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\h", r"\H", r"\R", r"\N", r"\O", r"(?m:.)", r"(?m-m:.)", r"(?-m:.)",
    r"[\s]", r"[\S]", r"[\d]", r"[\D]", r"[\w]", r"[\W]", r"[\h]", r"[\H]", r"[^\s]", r"[^\S]", r"[^\w]", r"[^\W]", r"[^\h]",
    r"[\w.-]", r"[^\w.]", r"[\W\d]", r"[^\W_]", r"[\s\S]", r"[^\S\n]", r"\p{l}", r"\p{ lowercase-letter }", r"\p{^L}", r"\P{^L}",
    r"\P{L}", r"\P{Han}", r"\p{^Han}", r"[\P{L}]", r"[^\P{L}\p{N}]", r"[\p{L}\P{N}]", r"[\p{L}&&\P{Lu}]", r"[\p{L}&&[^a-zA-Z]]",
    r"[a-w&&[^c-g]z]", r"[^a-w&&[^c-g]z]", r"[\w&&[^\d_]]", r"[\p{L}&&\p{ASCII}&&[^aeiou]]", r"[a&&b]", r"[a&&&b]",
    r"[[a-c][x-z]]", r"[^[a-c]x]", r"[a[^b]]", r"[^a[^b]]", r"[[^a]&&[^b]]", r"[(\s|[.,!?…。，、।۔،])]", r"[^(\s|[.,!?…。，、।۔،])]",
    r"[\x41-\x{5A}\u0061-\u007A]", r"\x41", r"\x{e9}", r"\u00e9", r"\v", r"\f", r"\a", r"\e", r"\t", r"\n", r"\r",
    r"[\v\f\a\e\b]", r"\.", r"\-", r"\é", r"\ ", r"\#", r"\'", r"\<", r"\_", r"[-a]", r"[a-]", r"[^-a]", r"[\--/]", r"[+--]", r"[a\]b]",
    r"[\[\]]", r"[a^]", r"[$.|(){}*+?]", r"[&]", r"[a&b]", r"[ -~]", r"[一-龥぀-ゟ゠-ヿ]", r"[A-Za-zµÀ-ÖØ-öø-ƺ]", r"]", r"}", r"{",
    r"(?i)s", r"(?i)k", r"(?i)z", r"(?i)é", r"(?i)[a-z]", r"(?i)[^a-z]", r"(?i)[^s]", r"(?i)[s]", r"(?i)[!-~]", r"(?i)[à-þ]",
    r"(?i)[\d\sk]", r"(?i)[\hk]", r"(?i)[^\s\d]", r"(?i)ж", r"(?i)[а-я]", r"(?i)å", r"(?i)ÿ", r"(?i)µ", r"(?i)\w", r"(?i)\W",
    r"(?i)\h", r"(?i)\p{Lu}", r"(?i)\p{Ll}", r"(?i)\p{L}", r"(?i)\P{Lu}", r"(?i)\p{ASCII}", r"(?i)\p{Lower}", r"(?i)\p{Han}", r"(?i)[’']",
    r"(?i:k|q)", r"(?i-m:k)", r"(?im:.)",
]  # fmt: skip

SEARCHES = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\b", r"\B", r"\b\w", r"\w\b", r"\w+\b", r"\B\w+", r"(?i)\bA", r"a{,2}", r"(?:ab){,2}c", r"a{2}?", r"a{2}?b",
    r"a{1,2}+b", r"a{1,2}?", r"a{1,}?b", r"a{2,}", r"a{,2}?b", r"a+?b", r"a*+b", r"a?+b", r"a++b", r"(?:a|b)*+c", r"a{,}", r"a{1", r"a{x}", r"a{2}{2}",
    r"a??b", r"(?>a+)b", r"(?>a|ab)c", r"^a", r"a$", r"^", r"\Aa", r"a\z", r"a\Z", r"(?m:a.b)", r"a.b", r"(?m)a.b", r"a(?i)b|c", r"(?i)ab|c",
    r"(?:a(?i)b|c)d", r"(?i:a)b", r"(?i)a(?-i:b)", r"(a)(b)?", r"(?<name>a)b", r"(?=a)\w", r"(?!a)\w", r"(?<=a)b", r"(?<!a)b", r"(?<=a|bc)\w",
    r"(?<=é)\w", r"\R", r"\R+", r"\n\R", r"(?:\R|a)+", r"a|ab|", r"|a", r"(?:)a", r"(?:a|)b", r"()a", r"\s+(?!\S)|\s", r"(?i)don't|won't",
    r"[^\W\d_]+", r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+", r"\p{Lu}?\p{Ll}+", r"(?<![\w])-?\d+", r"#{1,3}", r"x{0}a", r"\u00e9+", r"https?://\S+",
]  # fmt: skip

ALPHABET = "aaabbbccABCsSkKtT012 .,-_'#\n\t éÉßſK²½\u0301\u0308\u0903ëжЖ中あア٣Ⅷ\u200d\u00a0\u2028‿ªⓐ𝐀👍"
RANDOM_SETS = [r"\s", r"\S", r"\d", r"\w", r"\W", r"\h", r"\p{L}", r"\P{L}", r"\p{Lu}", r"\p{M}", r"\p{N}", r"\p{Mn}", r"\p{Han}", r"\p{Latin}"]
RANDOM_BRACKETS = [r"[abc]", r"[^abc]", r"[a-c\d]", r"[^\s\w]", r"[\w&&[^ab]]", r"[a[^b]]", r"[[:alpha:]\-]", r"[[:punct:]]", r"[^[:word:]]", r"[\W_]"]


def ranges(code_points):
    out = []
    for c in sorted(code_points):
        if out and out[-1] == c - 1:
            out[-1] = c
        else:
            out += [c, c]
    return out


def characters():
    def known(c):
        return unicodedata.category(chr(c)) not in ("Cn", "Cs") and not any(a <= c <= b for a, b in LEFT_OUT)

    return [c for c in range(sys.maxunicode + 1) if known(c)]


def matched(pattern, code_points, text):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = [ord(piece) for piece, _ in split.pre_tokenize_str(text)]
    return ranges(found)


def punctuation(known, text):
    """The characters that the pre-tokenizer of that name cuts at."""
    left = pre_tokenizers.Punctuation("removed").pre_tokenize_str(text)
    return ranges(set(known) - {ord(c) for piece, _ in left for c in piece})


def names_of(table):
    """The names that a table of properties.cc begins its rows with."""
    block = re.search(rf"{table}\[\] = {{(.*?)}};", PROPERTIES_CC.read_text(), re.DOTALL).group(1)
    return re.findall(r'"([A-Za-z_]+)"', re.sub(r'R"\(.*?\)"', "", block))


def property_patterns():
    tables = ("kCategories", "kShortCategories", "kBinary", "kOther", "kPosix", "kScripts")
    names = [name for table in tables for name in names_of(table)]
    names += ["Mn", "Nonspacing_Mark", "Assigned", "Graph", "Print"]
    brackets = [*names_of("kPosix"), "ascii", "word", "punct", "graph", "print"]
    out = [rf"\p{{{name}}}" for name in names]
    out += [rf"[[:{hat}{name}:]]" for name in brackets for hat in ("", "^")]
    return out


def random_pattern(rng, depth=0, folded=False):
    """`folded`: under (?i), where some letters and sets are refused."""

    def literal():
        return rng.choice(["a", "b", "c", " ", "é", r"\.", "-", "0", r"\n"] + ([] if folded else ["s", "\u0301", "²", "ß"]))

    def atom():
        kind = rng.random()
        if kind < 0.3:
            return literal()
        if kind < 0.45:
            return rng.choice(RANDOM_SETS)
        if kind < 0.6:
            return rng.choice(RANDOM_BRACKETS[:2] if folded else RANDOM_BRACKETS)
        if kind < 0.65:
            return "."
        if depth < 3 and kind < 0.85:
            group = rng.choice(["(?:", "(", "(?>", "(?i:", "(?m:", "(?<n>"])
            return group + random_pattern(rng, depth + 1, folded or group == "(?i:") + ")"
        return literal()

    def piece():
        kind = rng.random()
        if kind < 0.12:
            return rng.choice([r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z"])
        if depth < 2 and kind < 0.2:
            return rng.choice(["(?=", "(?!"]) + random_pattern(rng, 3, folded) + ")"
        if kind < 0.25:
            return rng.choice(["(?<=", "(?<!"]) + rng.choice([literal(), rng.choice(RANDOM_SETS), "[abc]", "a|bc"]) + ")"
        text = atom()
        if rng.random() < 0.4:
            more = [] if text.endswith(")") else ["{2}", "{2,}", "{2}?", "{2}+"]  # refused after what may be empty
            text += rng.choice(["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{1,2}", "{,2}", "{1,3}?", *more])
        return text

    branches = ["".join(piece() for _ in range(rng.randint(1, 4))) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    return "|".join(branches)


def random_text(rng):
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 24)))


def spans(pattern, text):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    offsets = [at for _, span in split.pre_tokenize_str(text) for at in span]
    return [len(text[:at].encode()) for at in offsets]


def searches(rng):
    fixed = ["", "a", "aaab abc", "Don't it's WE'LL x123456  \n\n y", "aaaaa", "a\nb\r\na\n", "aB AB ab cC ac", "naïve e\u0301te\u0301 ²³ a_b",
             "中文ひらがなカタカナ Ünïcode ßß ſs", "bca abb éa --12 #### http://x.y/z", "a.b a\nb axb", "(x|y) [z] {1} a{1 a{x}"]  # fmt: skip
    out = [[p, [[t, spans(p, t)] for t in fixed if t]] for p in SEARCHES]
    while len(out) < len(SEARCHES) + RANDOM_PATTERNS:
        pattern = random_pattern(rng)
        try:
            out.append([pattern, [[t, spans(pattern, t)] for t in (random_text(rng) for _ in range(TEXTS_A_PATTERN))]])
        except BaseException as error:  # one that does not compile, or a panic for its retry limit
            if "Onig" not in str(error):
                raise
    return out


def main():
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/tokenizer/patterns.json")
    known = characters()
    text = "".join(map(chr, known))
    data = {"tokenizers": tokenizers.__version__, "characters": ranges(known)}
    data["sets"] = [[p, matched(p, known, text)] for p in dict.fromkeys(SETS + property_patterns())]
    data["punctuation"] = punctuation(known, text)
    data["searches"] = searches(random.Random(SEED))
    out.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
