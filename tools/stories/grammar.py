"""The grammar's engine: templates, characters, and a story being told.

A template is English with three marks:
  {a|b|}      one of the alternatives, which may be empty and may be nested;
  [h.they]    an attribute of a bound referent: [h] names the hero, [f] the helper, [place.at] "under the old oak tree";
  [#rule]     an expansion of a rule of lexicon.RULES.
Articles ("a apple"), capitals at the start of sentences and doubled spaces are put right at the end, so that templates
are written in lower case and joined freely.
"""

import random
import re

from lexicon import (
    ADJECTIVES,
    BOY_NAMES,
    COLOURS,
    GENDERED_KINDS,
    GIRL_NAMES,
    KINDS,
    NAME_CODAS,
    NAME_ENDS,
    NAME_MIDDLES,
    NAME_NUCLEI,
    NAME_ONSETS,
    NAME_STARTS,
    ODD_KINDS,
    PET_NAMES,
    REGIONS,
    RULES,
    SEA_THINGS,
    THINGS,
    TRAITS,
    WORD_ENDS,
    WORD_STARTS,
    WORD_TAILS,
    WORD_VOWELS,
)

PRONOUNS = {
    "she": dict(they="she", them="her", their="her", self="herself"),
    "he": dict(they="he", them="him", their="his", self="himself"),
    "it": dict(they="it", them="it", their="its", self="itself"),
}
IRREGULAR_PLURALS = {"foot": "feet", "hoof": "hooves"}

CHOICE = re.compile(r"\{([^{}]*)\}")
REFERENCE = re.compile(r"\[(#?\w+)(?:\.(\w+))?\]")
ARTICLE = re.compile(r"\b([Aa]) (?=(?:[aeioAEIO]|u(?!ni|se)|U(?!ni|se)|hour|honest)\w)")
AN_EXCEPTION = re.compile(r"\b([Aa])n (?=one\b|once\b|ewe\b)")
# A sentence starts after . ! ? or ." but not after !" or ?", where "said the fox" may follow.
SENTENCE_START = re.compile(r'((?<!\.\.)[.!?] "?|(?<!\.\.)\." "?)([a-z])')
PIECE_START = re.compile(r'^("?)([a-z])')

INVENTED_NAME = 0.2
INVENTED_KIND = 0.08
UNNAMED_HERO = 0.35
UNNAMED_FRIEND = 0.45


class Referent:
    """Something templates can refer to: attributes by name, "" being the plain reference."""

    def __init__(self, /, **attributes):
        self.attributes = attributes

    def get(self, attribute, rng):
        return self.attributes[attribute]


class Character(Referent):
    """Somebody with a kind, pronouns and perhaps a name."""

    def __init__(self, kind, pronoun, name=None, adjective=""):
        go, went, hand, tags = KINDS.get(kind, ("walk", "walked", "hand", ""))
        super().__init__(
            kind=kind,
            go=go,
            went=went,
            hand=hand,
            hands=IRREGULAR_PLURALS.get(hand, hand + "s"),
            **PRONOUNS[pronoun],
        )
        self.kind, self.pronoun, self.name, self.adjective = kind, pronoun, name, adjective
        self.tags = set(tags.split())
        self.attributes["noun"] = f"{adjective} {kind}".strip()
        self.attributes["full"] = f"{name} the {kind}" if name else f"the {self.attributes['noun']}"

    def get(self, attribute, rng):
        if attribute == "":
            if self.name:
                return self.name
            return "the " + (self.attributes["noun"] if rng.random() < 0.3 else self.kind)
        if attribute == "intro":
            return self.introduction(rng)
        return self.attributes[attribute]

    def introduction(self, rng):
        """How somebody is mentioned for the first time."""
        noun = self.attributes["noun"]
        if not self.name:
            return f"a {noun}"
        return rng.choice(
            [
                f"a {noun} named {self.name}",
                f"a {noun} called {self.name}",
                f"{self.name} the {self.kind}",
                f"a {noun} whose name was {self.name}",
                f"{self.name}, a {noun},",
            ]
        )


def tidy(text):
    """Articles, spaces and capitals inside one piece of text."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ([,.!?;:])", r"\1", text)
    text = re.sub(r",([.!?,])", r"\1", text)
    text = re.sub(r'([!?]")\.', r"\1", text)
    text = re.sub(r"whose name was (\w+) who\b", r"named \1 who", text)
    text = AN_EXCEPTION.sub(r"\1 ", ARTICLE.sub(r"\1n ", text))
    text = re.sub(r'([!?]" )the ', r"\1The ", text)  # templates write 'said the fox', never 'the fox said'
    text = SENTENCE_START.sub(lambda m: m[1] + m[2].upper(), text)
    return PIECE_START.sub(lambda m: m[1] + m[2].upper(), text)


class Story:
    """A story being told: the random source, who and what it is about, and its paragraphs so far.

    `topics` are noun phrases that ask for this story ("a fox who wants to fly"); `facts` are questions with answers;
    `shape` is the name of its plot.
    """

    def __init__(self, rng, invented_names=INVENTED_NAME):
        self.rng = rng
        self.invented_names = invented_names
        self.bound = {}
        self.paragraphs = []
        self.topics = []
        self.facts = []
        self.sequels = []
        self.title = None
        self.shape = ""
        self.used = set()

    # Choosing ------------------------------------------------------------------------------------------------

    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def some(self, options, low, high):
        """Between low and high different options in random order."""
        return self.rng.sample(options, min(len(options), self.rng.randint(low, high)))

    def maybe(self, probability, *options):
        return self.pick(options) if self.chance(probability) else ""

    # Expanding -----------------------------------------------------------------------------------------------

    def say(self, template):
        """Expands one template to text without tidying it."""
        if not isinstance(template, str):
            template = self.pick(template)
        while True:
            if "{" in template:
                template = CHOICE.sub(lambda m: self.pick(m[1].split("|")), template)
            elif "[" in template:
                template = REFERENCE.sub(self._refer, template)
            else:
                return template

    def _refer(self, match):
        name, attribute = match[1], match[2] or ""
        if name[0] == "#":
            return self._fresh(RULES[name[1:]])
        value = self.bound[name]
        return value if isinstance(value, str) else value.get(attribute, self.rng)

    def _fresh(self, options):
        """An option of a rule that this story has not used yet, if there is one."""
        for _ in range(4):
            option = self.pick(options)
            if len(options) < 4 or option not in self.used:
                break
        self.used.add(option)
        return option

    def line(self, template):
        return tidy(self.say(template))

    def paragraph(self, *templates):
        """Adds a paragraph of sentences; a template may be a string, a list to choose from, or empty."""
        pieces = [self.line(t) for t in templates if t]
        text = " ".join(p for p in pieces if p)
        if text:
            self.paragraphs.append(text)

    def text(self):
        return "\n\n".join(self.paragraphs)

    # Casting -------------------------------------------------------------------------------------------------

    def settle(self, region=None, **without):
        """Chooses a region with two places, a home and a food."""
        self.region = region or self.pick([r for r in REGIONS if r not in without.get("without", ())])
        data = REGIONS[self.region]
        first, second, home = self.rng.sample(data["places"], 3)
        for name, (preposition, noun) in (
            ("place", first),
            ("place2", second),
            ("home", home),
            ("whole", data["whole"]),
        ):
            self.bound[name] = Referent(
                **{"": noun, "at": f"{preposition} {noun}", "in": f"{preposition} {noun}"}
            )
        self.bound["food"] = self.pick(data["foods"])
        self.bound["food2"] = self.pick([f for f in data["foods"] if f != self.bound["food"]])

    def kinds_here(self, without=()):
        kinds = [k.replace("_", " ") for k in REGIONS[self.region]["kinds"]]
        return [k for k in kinds if not set(KINDS[k][3].split()) & set(without)]

    def invent(self, ends):
        """A name that no list holds: Lonia, Zaltran, Bartholo."""
        if self.chance(0.6):
            syllables = [
                self.pick(NAME_ONSETS) + self.pick(NAME_NUCLEI) + self.pick(NAME_CODAS)
                for _ in range(self.rng.choice([1, 2, 2, 2, 2, 3]))
            ]
            start = (
                self.pick(NAME_NUCLEI[:11]) + self.pick(["n", "l", "r", "m", "s", ""])
                if self.chance(0.2)
                else ""
            )
            return (start + "".join(syllables) + (self.pick(ends) if self.chance(0.3) else "")).capitalize()
        return (
            self.pick(NAME_STARTS) + (self.pick(NAME_MIDDLES) if self.chance(0.5) else "") + self.pick(ends)
        )

    def name_for(self, kind, pronoun):
        if self.chance(self.invented_names):
            return self.invent(NAME_ENDS[pronoun])
        person = "person" in KINDS.get(kind, ("", "", "", ""))[3]
        if not person and self.chance(0.55):
            return self.pick(PET_NAMES)
        return self.pick(GIRL_NAMES if pronoun == "she" else BOY_NAMES)

    def invent_kind(self):
        """A kind that no region lists, or a word that does not exist, so that the model learns to carry any word."""
        if self.chance(0.6):
            return self.pick(ODD_KINDS).replace("_", " ")
        word = "".join([self.pick(WORD_STARTS), self.pick(WORD_VOWELS), self.pick(WORD_ENDS)])
        if self.chance(0.5):
            word = (
                self.pick(WORD_STARTS)
                + self.pick(WORD_VOWELS)
                + self.pick(["", "n", "p", "r", "l", "m"])
                + word
            )
        return word + self.pick(WORD_TAILS) if self.chance(0.4) else word

    def cast(self, role, kind, named, pronoun=None):
        """Binds a new character to `role`."""
        pronoun = GENDERED_KINDS.get(kind) or pronoun or self.pick(["she", "he"])
        name = None
        while named and (name is None or any(getattr(c, "name", None) == name for c in self.bound.values())):
            name = self.name_for(kind, pronoun)
        adjective = self.pick(ADJECTIVES) if self.chance(0.75) else ""
        tags = KINDS.get(kind, ("", "", "", ""))[3].split()
        if kind.startswith("old ") or kind.startswith("baby ") or (role != "h" and self.chance(0.5)):
            adjective = ""
        if (
            role != "h"
            and kind
            in ("owl", "turtle", "toad", "bear", "badger", "heron", "whale", "elephant", "witch", "wizard")
            and self.chance(0.6)
        ):
            adjective = self.pick(["old", "wise old", "kind old"])
        elif "big" in tags and adjective in ("tiny", "small"):
            adjective = self.pick(["big", "great big", "young", ""])
        elif adjective and role == "h" and self.chance(0.15):
            adjective = (
                self.pick(["red", "grey", "brown", "white", "spotted", "fluffy", "round"])
                if "person" not in tags
                else adjective
            )
        self.bound[role] = Character(kind, pronoun, name, adjective)
        return self.bound[role]

    def hero(self, without=(), kind=None):
        if kind is None:
            kind = self.invent_kind() if self.chance(INVENTED_KIND) else self.pick(self.kinds_here(without))
        return self.cast("h", kind, not self.chance(UNNAMED_HERO))

    def other(self, role="f", kinds=None, without=(), named=None):
        """Casts somebody of another kind than those already cast, mostly of the other gender than the hero."""
        taken = {c.kind for c in self.bound.values() if isinstance(c, Character)}
        kinds = [k for k in (kinds or self.kinds_here(without)) if k not in taken]
        pronoun = {"she": "he", "he": "she"}.get(self.bound["h"].pronoun) if self.chance(0.8) else None
        return self.cast(
            role, self.pick(kinds), not self.chance(UNNAMED_FRIEND) if named is None else named, pronoun
        )

    def treasure(self, role="thing"):
        """Binds a treasured thing: [thing] "red kite", [thing.noun] "kite", [thing.use], [thing.broke], [thing.end]."""
        noun = self.pick(SEA_THINGS if self.region == "sea" else list(THINGS))
        words, use, broke, end = THINGS[noun]
        options = []
        for word in words.split():
            options += COLOURS if word == "colour" else [word]
        phrase = f"{self.pick(options)} {noun}"
        self.bound[role] = Referent(**{"": phrase, "noun": noun, "use": use, "broke": broke, "end": end})
        return self.bound[role]

    def trait(self):
        name = self.pick(list(TRAITS))
        self.bound["trait"], self.bound["traitshow"] = name, TRAITS[name]
        return name

    # Remembering ---------------------------------------------------------------------------------------------

    def about(self, *topics):
        self.topics += [self.say(t) for t in topics]

    def fact(self, questions, answers):
        self.facts.append((self.line(questions), self.line(answers)))


def new_story(seed):
    return Story(random.Random(seed))
