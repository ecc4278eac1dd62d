"""Reads data/*.json: the words and texts that stories are made of. README.md describes the files."""

import json
import pathlib
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).parent / "data"


def load(name):
    """A file of texts. They write “ and ” where JSON would want \\" for a quotation mark."""
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8").replace("“", '\\"').replace("”", '\\"'))


def words(text):
    """The words of a string or of lines; a_b is one word with a space in it, and - is the empty word."""
    lines = [text] if isinstance(text, str) else text
    return ["" if word == "-" else word.replace("_", " ") for word in " ".join(lines).split()]


def word_lists(texts):
    return {name: words(text) for name, text in texts.items()}


class Kind(NamedTuple):
    """A kind of character: how it went, what it holds things with, and its tags (flies, swims, big, tiny, person, ...)."""

    went: str = "walked"
    hand: str = "hand"
    tags: frozenset = frozenset()


WORDS = load("words")
KINDS = {name: Kind(went, hand, frozenset(tags.split())) for name, (went, hand, tags) in WORDS["kinds"].items()}
GENDERED_KINDS = {kind: pronoun for pronoun, kinds in WORDS["gendered_kinds"].items() for kind in words(kinds)}
NAMES = word_lists(WORDS["names"])
NAME_ENDS = word_lists(WORDS["name_ends"])
NAME_PARTS = word_lists(WORDS["name_parts"])
KIND_PARTS = word_lists(WORDS["kind_parts"])
ADJECTIVES = word_lists(WORDS["adjectives"])
ODD_KINDS = words(WORDS["odd_kinds"])
OLD_KINDS = words(WORDS["old_kinds"])
WISE_KINDS = words(WORDS["wise_kinds"])
PETS = words(WORDS["pets"])
COLOURS = words(WORDS["colours"])
SEA_THINGS = words(WORDS["sea_things"])
REGIONS = {name: {**region, "kinds": words(region["kinds"])} for name, region in WORDS["regions"].items()}


def tags(kind):
    """A kind's tags; a kind that no list holds has none."""
    return KINDS.get(kind, Kind()).tags


def plural(noun):
    if noun in WORDS["plurals"]:
        return WORDS["plurals"][noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "sh", "ch", "z")) else "s")
