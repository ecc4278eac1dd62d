"""The grammar's engine: templates, characters, and a story being told.

A template is English with three marks:
  {a|b|}      one of the alternatives, which may be empty and may be nested;
  [h.they]    an attribute of a bound referent: [h] names the hero, [f] the helper, [place.at] "under the old oak tree";
  [#rule]     an expansion of one of the rules in data/words.json.
Articles ("a apple"), capitals at the start of sentences and doubled spaces are put right at the end, so that templates
are written in lower case and joined freely.
"""

import re

from lexicon import (
    ADJECTIVES,
    COLOURS,
    GENDERED_KINDS,
    KIND_PARTS,
    KINDS,
    NAME_ENDS,
    NAME_PARTS,
    NAMES,
    ODD_KINDS,
    OLD_KINDS,
    REGIONS,
    SEA_THINGS,
    WORDS,
    Kind,
    plural,
    tags,
)

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
    """A character: its kind, pronouns and perhaps a name."""

    def __init__(self, kind, pronoun, name=None, adjective=""):
        listed = KINDS.get(kind, Kind())
        noun = f"{adjective} {kind}".strip()
        super().__init__(
            kind=kind,
            noun=noun,
            full=f"{name} the {kind}" if name else f"the {noun}",
            went=listed.went,
            hand=listed.hand,
            hands=plural(listed.hand),
            **WORDS["pronouns"][pronoun],
        )
        self.kind, self.pronoun, self.name, self.tags = kind, pronoun, name, listed.tags

    def get(self, attribute, rng):
        if attribute == "":
            if self.name:
                return self.name
            return "the " + (self.attributes["noun"] if rng.random() < 0.3 else self.kind)
        if attribute == "intro":
            return self.introduction(rng)
        return self.attributes[attribute]

    def introduction(self, rng):
        """How the story mentions this character for the first time."""
        noun = self.attributes["noun"]
        if not self.name:
            return f"a {noun}"
        return rng.choice(WORDS["introductions"]).format(noun=noun, name=self.name, kind=self.kind)


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

    `topics` are noun phrases that ask for this story ("a fox who wants to fly"); `facts` are questions with answers.
    """

    def __init__(self, rng, invented_names=INVENTED_NAME):
        self.rng = rng
        self.invented_names = invented_names
        self.bound = {}
        self.paragraphs = []
        self.topics = []
        self.facts = []
        self.title = None
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
            return self._fresh(WORDS["rules"][name[1:]])
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

    def settle(self, region=None, without=()):
        """Chooses a region with two places, a home and a food."""
        self.region = region or self.pick([r for r in REGIONS if r not in without])
        data = REGIONS[self.region]
        places = self.rng.sample(data["places"], 3) + [data["whole"]]
        for name, (preposition, noun) in zip(("place", "place2", "home", "whole"), places):
            where = f"{preposition} {noun}"
            self.bound[name] = Referent(**{"": noun, "at": where, "in": where})
        self.bound["food"] = self.pick(data["foods"])
        self.bound["food2"] = self.pick([f for f in data["foods"] if f != self.bound["food"]])

    def kinds_here(self, without=()):
        return [kind for kind in REGIONS[self.region]["kinds"] if not tags(kind) & set(without)]

    def invent(self, ends):
        """A name that no list holds: Lonia, Zaltran, Bartholo."""
        pick, part = self.pick, NAME_PARTS
        if self.chance(0.6):
            syllables = [
                pick(part["onsets"]) + pick(part["nuclei"]) + pick(part["codas"])
                for _ in range(self.rng.choice([1, 2, 2, 2, 2, 3]))
            ]
            start = pick(part["first_vowels"]) + pick(part["first_consonants"]) if self.chance(0.2) else ""
            return (start + "".join(syllables) + (pick(ends) if self.chance(0.3) else "")).capitalize()
        return pick(part["starts"]) + (pick(part["middles"]) if self.chance(0.5) else "") + pick(ends)

    def name_for(self, kind, pronoun):
        if self.chance(self.invented_names):
            return self.invent(NAME_ENDS[pronoun])
        if "person" not in tags(kind) and self.chance(0.55):
            return self.pick(NAMES["pet"])
        return self.pick(NAMES[pronoun])

    def invent_kind(self):
        """A kind that no region lists, or a word that does not exist, so that the model learns to carry any word."""
        pick, part = self.pick, KIND_PARTS
        if self.chance(0.6):
            return pick(ODD_KINDS)
        word = pick(part["starts"]) + pick(part["vowels"]) + pick(part["ends"])
        if self.chance(0.5):
            word = pick(part["starts"]) + pick(part["vowels"]) + pick(part["links"]) + word
        return word + pick(part["tails"]) if self.chance(0.4) else word

    def cast(self, role, kind, named, pronoun=None):
        """Binds a new character to `role`."""
        pronoun = GENDERED_KINDS.get(kind) or pronoun or self.pick(["she", "he"])
        name = None
        while named and (name is None or any(getattr(c, "name", None) == name for c in self.bound.values())):
            name = self.name_for(kind, pronoun)
        self.bound[role] = Character(kind, pronoun, name, self.adjective_for(role, kind))

    def adjective_for(self, role, kind):
        """An adjective that suits the kind, or none; a hero gets one more often than others."""
        adjective = self.pick(ADJECTIVES["any"]) if self.chance(0.75) else ""
        if kind.startswith(("old ", "baby ")) or (role != "h" and self.chance(0.5)):
            adjective = ""
        if role != "h" and kind in OLD_KINDS and self.chance(0.6):
            return self.pick(ADJECTIVES["old"])
        if "big" in tags(kind) and adjective in ("tiny", "small"):
            return self.pick(ADJECTIVES["big"])
        if adjective and role == "h" and self.chance(0.15) and "person" not in tags(kind):
            return self.pick(ADJECTIVES["looks"])
        return adjective

    def hero(self, without=(), kind=None):
        """Casts the hero: of `kind`, or of one that lives here and has no tag of `without`, or of an invented one."""
        if kind is None:
            kind = self.invent_kind() if self.chance(INVENTED_KIND) else self.pick(self.kinds_here(without))
        self.cast("h", kind, not self.chance(UNNAMED_HERO))

    def other(self, role="f", kinds=None, named=None):
        """Casts a character of a kind that is not cast yet, mostly of the other gender than the hero."""
        taken = {c.kind for c in self.bound.values() if isinstance(c, Character)}
        kinds = [kind for kind in (kinds or self.kinds_here()) if kind not in taken]
        pronoun = {"she": "he", "he": "she"}.get(self.bound["h"].pronoun) if self.chance(0.8) else None
        self.cast(role, self.pick(kinds), not self.chance(UNNAMED_FRIEND) if named is None else named, pronoun)

    def treasure(self):
        """Binds a treasured thing: [thing] "red kite", [thing.noun] "kite", [thing.use], [thing.broke], [thing.end]."""
        noun = self.pick(SEA_THINGS if self.region == "sea" else list(WORDS["things"]))
        thing = WORDS["things"][noun]
        adjectives = []
        for word in thing["words"].split():
            adjectives += COLOURS if word == "colour" else [word]
        self.bound["thing"] = Referent(**{**thing, "": f"{self.pick(adjectives)} {noun}", "noun": noun})

    def trait(self):
        """Binds a trait of the hero: [trait] "shy", [traitshow] how it shows."""
        name = self.pick(list(WORDS["traits"]))
        self.bound.update(trait=name, traitshow=WORDS["traits"][name])

    # Remembering ---------------------------------------------------------------------------------------------

    def about(self, *topics):
        self.topics += [self.say(t) for t in topics]

    def fact(self, questions, answers):
        self.facts.append((self.line(questions), self.line(answers)))
