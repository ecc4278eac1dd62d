#!/usr/bin/env python3
"""Trains small byte-level BPE tokenizers and records what Hugging Face `tokenizers` does with them.

    python3 tools/tokenizer_goldens.py [tests/data/tokenizer]

Everything is generated here from fixed seeds: the text to train on, the strings to encode, the tokenizers. Running it
again with the same version of `tokenizers` (see tools/requirements.txt; the version is recorded in every file) writes
the same bytes.

    NAME/tokenizer.json, NAME/tokenizer_config.json   llama3, gpt2 and odd
    NAME/goldens.json    for each of strings.json: ids; where they differ from the plain case, also the ids with special
                         tokens left as text, and the decoded text
    strings.json         the strings
    pre_tokenizers.json  pieces that each kind of pre-tokenizer cuts text into
    chat.json            conversations rendered by the Jinja templates in the tokenizer_config.json files
"""

import itertools
import json
import pathlib
import random
import sys
import unicodedata

import jinja2
import jinja2.sandbox
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SEED = 20240418
STRINGS = 2200
RANDOM_ID_SEQUENCES = 150

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

LLAMA3_SPECIAL = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|reserved_special_token_2|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
]

LLAMA3_TEMPLATE = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim"
    " + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# First and last code point of ranges with letters, by script.
SCRIPTS = {
    "latin": (0x41, 0x24F), "ipa": (0x250, 0x2AF), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x4FF),
    "armenian": (0x530, 0x58F), "hebrew": (0x590, 0x5F4), "arabic": (0x600, 0x6FF), "syriac": (0x700, 0x74F),
    "thaana": (0x780, 0x7BF), "devanagari": (0x900, 0x97F), "bengali": (0x980, 0x9FF), "gurmukhi": (0xA00, 0xA7F),
    "gujarati": (0xA80, 0xAFF), "oriya": (0xB00, 0xB7F), "tamil": (0xB80, 0xBFF), "telugu": (0xC00, 0xC7F),
    "kannada": (0xC80, 0xCFF), "malayalam": (0xD00, 0xD7F), "sinhala": (0xD80, 0xDFF), "thai": (0xE00, 0xE7F),
    "lao": (0xE80, 0xEFF), "tibetan": (0xF00, 0xFFF), "myanmar": (0x1000, 0x109F), "georgian": (0x10A0, 0x10FF),
    "hangul jamo": (0x1100, 0x11FF), "ethiopic": (0x1200, 0x137F), "cherokee": (0x13A0, 0x13FF),
    "khmer": (0x1780, 0x17FF), "mongolian": (0x1800, 0x18AF), "greek extended": (0x1F00, 0x1FFF),
    "hiragana": (0x3040, 0x309F), "katakana": (0x30A0, 0x30FF), "bopomofo": (0x3100, 0x312F),
    "han": (0x4E00, 0x9FFF), "yi": (0xA000, 0xA48C), "hangul": (0xAC00, 0xD7A3), "gothic": (0x10330, 0x1034A),
    "deseret": (0x10400, 0x1044F), "cuneiform": (0x12000, 0x12399), "adlam": (0x1E900, 0x1E95F),
    "han extension b": (0x20000, 0x2A6DF),
}  # fmt: skip

SYMBOLS = {
    "punctuation": (0x2010, 0x205E), "currency": (0x20A0, 0x20BF), "letterlike": (0x2100, 0x214F),
    "number forms": (0x2150, 0x218B), "arrows": (0x2190, 0x21FF), "mathematical": (0x2200, 0x22FF),
    "enclosed": (0x2460, 0x24FF), "boxes": (0x2500, 0x257F), "cjk punctuation": (0x3000, 0x303F),
    "full width": (0xFF01, 0xFFEE), "mathematical letters": (0x1D400, 0x1D7FF), "emoji": (0x1F300, 0x1F64F),
    "combining": (0x300, 0x36F), "private": (0xE000, 0xE0FF), "musical": (0x1D100, 0x1D1DD),
}  # fmt: skip

ZWJ = "\u200d"
EMOJI_SEQUENCES = [
    "👩" + ZWJ + "🚀", "👨" + ZWJ + "👩" + ZWJ + "👧" + ZWJ + "👦", "🏳\ufe0f" + ZWJ + "🌈", "👍🏽", "🇩🇪🇫🇷", "❤\ufe0f\u200d🔥",
    "1\ufe0f\u20e3", "🧑🏿" + ZWJ + "🤝" + ZWJ + "🧑🏻", "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
]  # fmt: skip
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\x0b", "\x0c", "\x85",
          "\u200b", "\ufeff", "\u180e", "\u1680", "\x1c", "\x1f"]  # fmt: skip
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'lL", "'D", "'x", "’s", "'ſ"]
CODE = [
    "def f(x, *, y=1.5e-3):\n    return [a**2 for a in x if a != y]  # note\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i] * b[i];\n}\n",
    "#include <vector>\r\nstd::vector<std::string> names{\"a\", 'b'};\r\n",
    "SELECT COUNT(*) FROM t WHERE id>=10 AND name LIKE '%x%';",
    "<div class=\"a-b_c\">&nbsp;<!-- no --></div>",
    "{\"k\": [1, 2.50, -3e+10, null, true], \"\\u00e9\": \"\\n\"}",
    "https://example.org/a/b?c=d&e=%20f#g  user@host.tld  C:\\dir\\file.txt  /usr/lib64",
    "\\frac{1}{2} \\sum_{i=0}^{\\infty} x_i^2 \\le \\pi",
]


def words(rng, count):
    """Words that look a little like a language: syllables from a few consonants and vowels."""
    onsets = ["b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "qu", "r", "s", "sh", "st", "t", "th", "v", "w", ""]
    vowels = ["a", "e", "i", "o", "u", "ai", "ee", "ou"]
    codas = ["", "", "n", "r", "s", "t", "ck", "ll", "ng"]
    syllables = [a + b + c for a, b, c in itertools.product(onsets, vowels, codas)]
    return ["".join(rng.choice(syllables) for _ in range(rng.choice([1, 1, 2, 2, 3]))) for _ in range(count)]


def letters(first, last):
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c))[0] in "LMN"]


def assigned(first, last):
    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def training_text(rng):
    lexicon = words(rng, 600)
    lines = []
    for _ in range(3000):
        sentence = [rng.choice(lexicon) for _ in range(rng.randint(3, 14))]
        if rng.random() < 0.3:
            sentence.insert(rng.randrange(len(sentence)), str(rng.randrange(10 ** rng.randint(1, 6))))
        if rng.random() < 0.3:
            at = rng.randrange(len(sentence))
            sentence[at] += rng.choice(CONTRACTIONS)
        text = " ".join(sentence)
        text = rng.choice([text, text.capitalize(), text.upper()]) + rng.choice([".", "!", "?", "...", ",\n\n", ";\r\n"])
        lines.append(text)
    for first, last in SCRIPTS.values():
        alphabet = letters(first, last)[:120]
        common = ["".join(rng.choice(alphabet) for _ in range(rng.randint(2, 5))) for _ in range(25)]
        lines += [" ".join(rng.choice(common) for _ in range(8)) for _ in range(25)]
    lines += CODE * 20 + EMOJI_SEQUENCES * 10
    return lines


def test_strings(rng):
    lexicon = words(random.Random(SEED), 600)
    added = LLAMA3_SPECIAL + ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<mask>", "<tool>", "tool", "to", "[SEP]", "\n\n\n"]
    alphabets = {name: letters(*span) for name, span in SCRIPTS.items()}
    symbols = {name: assigned(*span) for name, span in SYMBOLS.items()}

    def phrase():
        return " ".join(rng.choice(lexicon) for _ in range(rng.randint(1, 5)))

    def script():
        alphabet = alphabets[rng.choice(list(alphabets))]
        return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 8)))

    def symbol():
        return "".join(rng.choice(symbols[rng.choice(list(symbols))]) for _ in range(rng.randint(1, 4)))

    def spaces():
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))

    def digits():
        return "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 14)))

    def anything():
        while True:
            c = chr(rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x110000)]))
            if unicodedata.category(c) not in ("Cn", "Cs"):
                return c

    parts = [
        phrase, script, symbol, spaces, digits, anything,
        lambda: rng.choice(EMOJI_SEQUENCES), lambda: rng.choice(lexicon) + rng.choice(CONTRACTIONS),
        lambda: rng.choice(added), lambda: rng.choice(lexicon).upper(), lambda: rng.choice(CODE)[: rng.randint(1, 40)],
        lambda: "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.randint(1, 6))),
        lambda: rng.choice("aeiou") + "".join(rng.choice(symbols["combining"]) for _ in range(rng.randint(1, 5))),
        lambda: rng.choice([" ", "\n", "\t", "\r\n", "-", "_", "=", ".", "a", "é", "中"]) * rng.randint(2, 30),
    ]  # fmt: skip

    strings = ["", " ", "  ", "\n", "a", " a", "a ", "\x00", "\x7f", "\ufffd", "\ufffe", "\U0010ffff"]
    strings += CODE + EMOJI_SEQUENCES + SPACES + CONTRACTIONS + added
    strings += ["it" + c + " it" + c + "x" + c for c in CONTRACTIONS]
    strings += [a + b for a, b in itertools.product(["x", " ", "<|eot_id|>", "x ", "x_"], added)]
    strings += [a + b + a for a, b in itertools.product(["x", " ", "\t \n", "é", "_", "-", "\u0301"], added)]
    strings += [" " * n + "x" for n in range(2, 20)] + ["\n" * n for n in range(2, 20)]
    strings += ["7" * n for n in range(1, 20)] + ["word" * n for n in (10, 50, 200)]
    strings += ["<|eot_id", "<|eot_id|", "<<|eot_id|>>", "<|begin_of_<|eot_id|>text|>", "tooltip", "a tool.", "stool", "tool_"]
    for alphabet in alphabets.values():
        strings.append(" ".join("".join(rng.choice(alphabet) for _ in range(4)) for _ in range(4)))
    for alphabet in symbols.values():
        strings.append("".join(rng.choice(alphabet) for _ in range(16)))
    strings += [" ".join(phrase() for _ in range(60)), "".join(anything() for _ in range(300)), digits() * 40]
    strings = list(dict.fromkeys(strings))
    seen = set(strings)
    while len(strings) < STRINGS:
        text = "".join(rng.choice(parts)() for _ in range(rng.randint(1, 5)))
        if text not in seen:
            seen.add(text)
            strings.append(text)
    return strings


def llama3(lines):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=1800, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in LLAMA3_SPECIAL])
    bos = LLAMA3_SPECIAL[0]
    template = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B:1", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    # A word that merges alone do not lead to, which is what ignore_merges is for.
    data = json.loads(tokenizer.to_str())
    longest = sorted(data["model"]["merges"], key=lambda m: -len("".join(m)))[:20]
    data["model"]["merges"] = [m for m in data["model"]["merges"] if m not in longest]
    config = {"bos_token": bos, "eos_token": "<|eot_id|>", "chat_template": LLAMA3_TEMPLATE}
    return data, config


def gpt2(lines):
    """As GPT-2, whose merges are written "a b"; the control tokens are in the vocabulary, as after training with them."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1200, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    data = json.loads(tokenizer.to_str())
    data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    config = {"bos_token": None, "eos_token": {"content": "<|im_end|>"}, "chat_template": CHATML_TEMPLATE}
    return data, config


def odd(lines):
    """Every setting that the other two leave at its usual value; also bytes without a token, and BOS and EOS."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Split("_", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"\s+"), "isolated"),
        pre_tokenizers.Split(Regex(r"[a-z]+"), "contiguous", invert=True),
        pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True),
    ])  # fmt: skip
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel()])
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator([line for line in lines if line.isascii()], trainer)
    tokenizer.add_special_tokens([
        AddedToken("<mask>", lstrip=True, special=True, normalized=False),
        AddedToken("[SEP]", lstrip=True, rstrip=True, special=True, normalized=True),
    ])  # fmt: skip
    tokenizer.add_tokens([
        AddedToken("<tool>", rstrip=True, normalized=False),
        AddedToken("tool", single_word=True, normalized=True),
        AddedToken("to", normalized=True),
        AddedToken("toolbox", normalized=True),
        AddedToken("\n\n\n", normalized=False),
        AddedToken("中中", normalized=True),
    ])  # fmt: skip
    template = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B", special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<s>", "</s>")]
    )
    tokenizer.post_processor = template
    data = json.loads(tokenizer.to_str())
    data["normalizer"] = {"type": "Sequence", "normalizers": []}
    return data, {"bos_token": "<s>", "eos_token": "</s>"}


def goldens(data, strings, rng):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    around = tokenizer.encode("x", add_special_tokens=True).ids
    bare = tokenizer.encode("x", add_special_tokens=False).ids
    at = next(i for i in range(len(around)) if around[i : i + len(bare)] == bare)
    prefix, suffix = around[:at], around[at + len(bare) :]
    out = {"tokenizers": tokenizers.__version__, "prefix": prefix, "suffix": suffix}
    out |= {"ids": [], "ids_special_as_text": {}, "decoded": {}, "decoded_without_special": {}, "random": []}
    for index, text in enumerate(strings):
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text, add_special_tokens=True).ids == prefix + ids + suffix
        out["ids"].append(ids)
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        if plain != ids:
            out["ids_special_as_text"][str(index)] = plain
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        if decoded != text:
            out["decoded"][str(index)] = decoded
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        if skipped != decoded:
            out["decoded_without_special"][str(index)] = skipped
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    for _ in range(RANDOM_ID_SEQUENCES):
        ids = [rng.choice([rng.randrange(size), rng.randrange(256)]) for _ in range(rng.randint(1, 12))]
        texts = [tokenizer.decode(ids, skip_special_tokens=skip) for skip in (False, True)]
        out["random"].append([ids, *texts])
    return out


def pre_tokenizer_goldens(strings):
    """For each behaviour, inverted and not, and the other kinds: the pieces, as text."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps = []
    for behaviour in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        for pattern in ({"String": "-"}, {"Regex": r"\s+"}, {"Regex": r"[a-z]"}, {"Regex": "x*"}, {"String": "(.)"}, {"Regex": "^|$"}):
            for invert in (False, True):
                steps.append({"type": "Split", "pattern": pattern, "behavior": behaviour, "invert": invert})
        steps.append({"type": "Punctuation", "behavior": behaviour})
    steps += [{"type": "Digits", "individual_digits": each} for each in (False, True)]
    configs = [{"type": "Sequence", "pretokenizers": [step, byte_level]} for step in steps]
    configs.append({"type": "Split", "pattern": {"Regex": LLAMA3_SPLIT}, "behavior": "Isolated", "invert": False})
    configs[-1] = {"type": "Sequence", "pretokenizers": [configs[-1], byte_level]}
    configs += [byte_level | {"use_regex": True, "add_prefix_space": space} for space in (False, True)]

    byte_of = {c: b for b, c in byte_alphabet().items()}
    out = {"tokenizers": tokenizers.__version__, "strings": strings, "cases": []}
    for config in configs:
        tokenizer = Tokenizer(models.BPE())
        data = json.loads(tokenizer.to_str()) | {"pre_tokenizer": config}
        split = Tokenizer.from_str(json.dumps(data)).pre_tokenizer
        pieces = []
        for text in strings:
            written = [piece for piece, _ in split.pre_tokenize_str(text)] if text else []
            pieces.append([bytes(byte_of[c] for c in piece).decode() for piece in written])
        out["cases"].append({"pre_tokenizer": config, "pieces": pieces})
    return out


def byte_alphabet():
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in itself]
    return {b: chr(b) for b in itself} | {b: chr(256 + n) for n, b in enumerate(others)}


def chat_goldens(rng):
    contents = ["Hi!", "  spaced \n", "", "Why is the sky blue?\n\nTell me.", "émoji 👩\u200d🚀", "\u00a0\u2003x\u3000\x1c", "1 < 2 | 3"]
    conversations = [
        [{"role": "user", "content": "Hello"}],
        [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": " A fox, please. "}],
    ]
    for _ in range(20):
        roles = ["system"] * rng.randint(0, 1) + ["user", "assistant"] * rng.randint(1, 3)
        conversations.append([{"role": role, "content": rng.choice(contents)} for role in roles])
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    out = {"jinja2": jinja2.__version__, "cases": []}
    for name, template in (("llama3", LLAMA3_TEMPLATE), ("chatml", CHATML_TEMPLATE)):
        compiled = environment.from_string(template)
        for messages, prompt in itertools.product(conversations, (False, True)):
            text = compiled.render(messages=messages, add_generation_prompt=prompt, bos_token="<|begin_of_text|>")
            out["cases"].append({"template": name, "messages": messages, "generation_prompt": prompt, "text": text})
    return out


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/tokenizer")
    lines = training_text(random.Random(SEED))
    strings = test_strings(random.Random(SEED + 1))
    write(out / "strings.json", strings)
    for make in (llama3, gpt2, odd):
        data, config = make(lines)
        write(out / make.__name__ / "tokenizer.json", data)
        write(out / make.__name__ / "tokenizer_config.json", config)
        write(out / make.__name__ / "goldens.json", goldens(data, strings, random.Random(SEED + 2)))
    cut = ["", "a", "-", "--", "a-b", "-a-b-", "a--b", "the final--countdown", " x  xx y\n\n", "x(.)(.)y", "abc DEF 123", "١٢³ 45",
           "«wow»!?$+<=>^`|~…", "a\nb\n\nc\r\n", "I'll we'VE", "é-中-👩\u200d🚀", "\u180e\u200b \u3000"]  # fmt: skip
    write(out / "pre_tokenizers.json", pre_tokenizer_goldens(cut))
    write(out / "chat.json", chat_goldens(random.Random(SEED + 3)))


if __name__ == "__main__":
    main()
