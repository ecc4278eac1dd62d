"""Tells stories from the shapes in data/plots/: a plot is a list of steps, each told by the method of `Telling` of that name.

A plot settles a region, casts its characters, tells paragraph after paragraph, and leaves topics (what a user would ask
for to get this story) and facts (questions about it with their answers). README.md describes the form of the data.

The order in which the random numbers are drawn is part of a corpus: a change of order gives other stories for the same seed.
"""

import re

from grammar import Referent
from lexicon import REGIONS, WISE_KINDS, WORDS, load, tags, words

SHARED = load("shared")
WEIGHTS = SHARED["weights"]
PLOTS = {name: load(f"plots/{name}") for name in WEIGHTS}
WISHES = load("wishes")
TOLD_WISH = 0.78  # the share of wishes that have texts of their own

PART = re.compile(r"<(\w+)>")
COMPARISON = re.compile(r"([\w.]+) is (not )?(.+)")
CONDITIONS = {
    "at sea": lambda t: t.story.region == "sea",
    "h is named": lambda t: t.story.bound["h"].name,
    "h is a person": lambda t: "person" in t.story.bound["h"].tags,
    "f is named": lambda t: t.story.bound["f"].name,
    "f flies": lambda t: "flies" in t.story.bound["f"].tags,
    # by the paragraph before this one
    "f was introduced": lambda t: t.attribute("f", "full") in t.story.paragraphs[-1],
    # by the second paragraph
    "x was introduced": lambda t: any(
        word and word in t.story.paragraphs[1] for word in (t.attribute("x", "kind"), t.story.bound["x"].name)
    ),
    # in the paragraph before this step
    "the thing broke": lambda t: t.attribute("thing", "broke") in t.story.paragraphs[-1],
    "the wish has a reason": lambda t: t.parts["why"],
    "the reason names the hero": lambda t: "[h" in t.parts["why"],
}


class Telling:
    """One story being told. `parts` are the texts chosen so far; a template includes one as <name> before it is expanded."""

    def __init__(self, story):
        self.story = story
        self.parts = {"end_lines": SHARED["ending"]["end_lines"], "meetings": SHARED["meetings"]}

    def tell(self, steps):
        for step in steps:
            if "if" in step or "case" in step:
                self.tell(self.branch(step) or [])
            else:
                [(name, argument)] = step.items()
                getattr(self, name)(argument)

    # Values ------------------------------------------------------------------------------------------------------

    def attribute(self, role, name):
        return self.story.bound[role].attributes[name]

    def holds(self, test):
        """A test is a probability, a condition, a comparison ("region is river or seaside"), or a list of them."""
        if isinstance(test, list):
            return all(self.holds(each) for each in test)
        if isinstance(test, float):
            return self.story.chance(test)
        if test in CONDITIONS:
            return CONDITIONS[test](self)
        name, negated, values = COMPARISON.fullmatch(test).groups()
        value = self.attribute(*name.split(".")) if "." in name else self.parts[name]
        return (value in values.split(" or ")) != bool(negated)

    def branch(self, item):
        """The branch that an item with "if" or "case" takes; None if it has none."""
        if "case" in item:
            return item[self.parts[item["case"]]]
        if not self.holds(item["if"]):
            return item.get("else")
        return {"pick": item["pick"]} if "pick" in item else item["then"]

    def resolve(self, value):
        """A value of the data with its parts included and its branches taken."""
        if isinstance(value, str):
            whole = PART.fullmatch(value)  # a part may be a list
            return self.parts[whole[1]] if whole else PART.sub(lambda m: self.parts[m[1]], value)
        if isinstance(value, list):
            return [self.resolve(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "if" in value or "case" in value:
            return self.resolve(self.branch(value))
        if "pick" in value:
            return self.story.pick(self.resolve(value["pick"]))
        return {key: self.resolve(each) for key, each in value.items()}

    def words(self, value):
        return words(self.resolve(value))

    def options(self, value):
        """The options of a choice: a list, words, or what a branch says. Only the option that is chosen gets resolved."""
        while isinstance(value, dict) and "if" in value:
            value = self.branch(value)
        if isinstance(value, dict):
            return words(value["words"])
        value = self.resolve(value) if isinstance(value, str) else value
        return words(value) if isinstance(value, str) else value

    # Steps: casting and choosing -------------------------------------------------------------------------------------

    def settle(self, how):
        self.story.settle(self.resolve(how.get("region")), words(how.get("without", "")))
        self.parts["region"] = self.story.region

    def hero(self, how):
        self.story.hero(self.words(how.get("without", "")))

    def other(self, how):
        """Casts `role`: of one of `kinds`, or of a kind with `tag` if one lives here, or of one that lives here or is wise."""
        hero, here = self.story.bound["h"].kind, self.story.kinds_here()
        kinds = self.words(how["kinds"]) if "kinds" in how else here
        if "tag" in how:
            kinds = [kind for kind in here if how["tag"] in tags(kind) and kind != hero] or kinds
        if how.get("wise"):
            kinds = here + WISE_KINDS
        unwanted = self.resolve(how.get("not", ""))
        self.story.other(how["role"], [kind for kind in kinds if kind != unwanted], how.get("named"))

    def little_one(self, kinds):
        """Casts the helper as a little one of another kind than the hero."""
        kinds = [kind for kind in self.words(kinds) if kind != self.story.bound["h"].kind]
        kind = self.story.pick(kinds)
        self.story.cast("f", kind, self.story.chance(0.5))
        self.story.bound["f"].attributes["noun"] = f"little {kind}"

    def thing_hero(self, noun):
        """Casts a thing with an adjective as the hero."""
        noun, kind = self.resolve(noun), self.parts["noun"]
        self.story.rng.random()  # decides nothing; without it, a seed would give another corpus than before
        plain = f"the {noun if self.story.chance(0.4) else kind}"
        attributes = {"": plain, "kind": kind, "noun": noun, "full": f"the {noun}", **WORDS["pronouns"]["it"]}
        self.story.bound["h"] = Referent(**attributes)

    def treasure(self, _):
        self.story.treasure()

    def invent_kind(self, part):
        self.parts[part] = self.story.invent_kind()

    def choose(self, choices):
        """Chooses a row, whose columns become parts, from a list; or one option for each part that is named."""
        if isinstance(choices, dict) and "if" not in choices:
            for part, options in choices.items():
                self.parts[part] = self.resolve(self.story.pick(self.options(options)))
        else:
            self.parts.update(self.resolve(self.story.pick(self.options(choices))))

    def say(self, choices):
        """Like choose, but expands the option right away."""
        for part, options in choices.items():
            self.parts[part] = self.story.say(self.resolve(options))

    def sample(self, choices):
        """Chooses different options for several parts."""
        for names, options in choices.items():
            names = names.split()
            self.parts.update(zip(names, self.story.rng.sample(self.options(options), len(names))))

    def let(self, parts):
        self.parts.update(self.resolve(parts))

    # Steps: telling --------------------------------------------------------------------------------------------------

    def paragraph(self, items):
        self.story.paragraph(*[sentence for item in items for sentence in self.sentences(item)])

    def sentences(self, item):
        """The templates of one item of a paragraph: one, none, or several."""
        if isinstance(item, dict):
            if "if" in item:
                return self.sentences(self.branch(item))
            if "opening" in item:
                return self.opening(item["opening"])
            if "some" in item:
                return self.story.some(self.resolve(item["from"]), *item["some"])
            if "attempts" in item:
                return self.attempts(self.resolve(item["attempts"]))
        return [self.resolve(item)] if item else []

    def opening(self, chances):
        """Introduces the hero and where it lives, in up to three sentences, and remembers both as facts."""
        story, texts = self.story, SHARED["opening"]
        firsts = texts["plain"] + texts["plain"][:4] + (texts["named"] * 2 if story.bound["h"].name else texts["unnamed"])
        if story.chance(0.3):
            self.say({"happened": texts["happened"], "because": texts["because"]})
            firsts = texts["free"]
        pieces = [story.pick(firsts)]
        if story.chance(chances.get("trait", 0.5)):
            story.trait()
            pieces.append(story.pick(texts["traits"]))
        if story.chance(chances.get("habit", 0.45)):
            pieces.append(story.pick(texts["sea_habits" if "sea" in story.bound["h"].tags else "habits"]))
        elif story.chance(0.2) and story.region != "sea":
            pieces.append("[#weather]")
        self.tell(texts["facts"])
        return self.resolve(pieces)

    def attempts(self, tries):
        """One to three attempts, one that starts with "first" in front."""
        chosen = self.story.some(tries, 1, 3)
        chosen.sort(key=lambda attempt: not attempt.startswith("first"))
        if len(chosen) > 1 and chosen[1].startswith("first"):
            chosen.pop(1)
        first = re.sub("^next, ", "first, ", re.sub("^then ", "first ", chosen[0]))
        pieces = [first]
        for attempt in chosen[1:]:
            pieces += [self.story.maybe(0.6, "[#never_give_up]"), attempt.removeprefix("first, ")]
        return pieces

    def ending(self, how):
        """The last paragraph: a look back at the treasured thing, what was learned, supper, a closing line."""
        story, texts = self.story, SHARED["ending"]
        pieces = []
        if self.resolve(how.get("thing", False)) and story.chance(0.75):
            pieces.append(story.pick(texts["thing"]))
        if story.chance(0.5):
            self.say({"moral": how["morals"]})
            pieces.append(story.pick(texts["moral"]))
        if story.chance(0.25) and story.region != "sea":
            pieces.append(texts["supper"])
        if story.chance(how.get("final", 0.85)) or not pieces:
            pieces.append(story.pick(texts["end_lines"]))
        story.paragraph(*self.resolve(pieces))

    def about(self, topics):
        self.story.about(*self.resolve(topics))

    def title(self, title):
        self.story.title = self.story.say(self.resolve(title))

    def fact(self, fact):
        self.story.fact(self.resolve(fact["ask"]), self.resolve(fact["answer"]))

    def friend(self, helped):
        self.parts["helped"] = helped
        self.fact(SHARED["friend"])

    # Wishes ----------------------------------------------------------------------------------------------------------

    def wish(self, _):
        """Chooses a wish, settles where it can come true, casts the hero and the helper, and makes its texts parts."""
        story, helpers = self.story, None
        if story.chance(TOLD_WISH):
            wish = story.pick(WISHES["told"])
            unfit = wish["no"].split()
            regions = [r for r in wish_regions(wish) if r != "sea" or "sea" not in unfit]
            self.settle({"region": story.pick(regions)})
            kinds = story.kinds_here(unfit)
            story.hero(kind=story.pick(kinds) if story.chance(0.95) else story.invent_kind())
            helpers = self.helpers_here(words(wish["helpers"]))
            self.parts.update(wish, why=story.pick(wish["why"]))
        else:
            inf, past, ing, unfit = story.pick(WISHES["plain"])
            self.settle({"without": "sea" if "sea" in unfit.split() else ""})
            story.hero(unfit.split())
            self.let({"inf": inf, "past": past, "ing": ing, "why": ""})
            self.let(WISHES["plain_texts"])
        story.other("f", helpers)

    def helpers_here(self, kinds):
        """`kinds` without those that cannot be in the story's region and without the hero's own kind."""
        story = self.story
        if story.region == "sea":
            kinds = [kind for kind in kinds if "sea" in tags(kind)] or story.kinds_here()
        elif story.region != "seaside":
            kinds = [kind for kind in kinds if "sea" not in tags(kind)]
        return [kind for kind in kinds if kind != story.bound["h"].kind]


def wish_regions(wish):
    """The regions where a wish can come true: all for *, all but the sea where it names none."""
    where = wish.get("where")
    return where.split() if where and where != "*" else [r for r in REGIONS if where or r != "sea"]


def tell(story):
    """Tells one whole story; its plot is drawn by weight."""
    [name] = story.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
    Telling(story).tell(PLOTS[name])
    return story
