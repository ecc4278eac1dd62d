"""Conversations: a user asks for a story, asks about it, asks how it goes on.

A conversation is a list of {"role", "content"} messages. The stories come from plots.py; what is asked for is what the
story is about, and every answer about it is true of it. The texts are in data/dialogue.json.
"""

from grammar import ARTICLE, Story
from lexicon import NAMES, PETS, load, plural, word_lists
from plots import tell

TEXTS = load("dialogue")
OUTSIDE_WORDS = word_lists(TEXTS["outside_words"])

# In a conversation more names are invented ones, and most of those are asked for: an answer keeps the asker's names.
TALKED_ABOUT_NAMES = 0.4
KNOWN_NAMES = frozenset(NAMES["she"] + NAMES["he"] + NAMES["pet"])


def careless(story, text):
    """How people type: sometimes all in lower case, sometimes without the last stop."""
    if story.chance(0.15):
        text = text.rstrip(".?!")
    return text.lower() if story.chance(0.15) else text


def mate_of(story, hero, friend, called):
    """How a request mentions the friend after the hero."""
    if friend.name:
        return story.pick(
            [friend.name, f"{friend.name} the {friend.kind}", f"a {friend.kind} {called} {friend.name}"]
        )
    return f"{hero.attributes['their']} {friend.kind}" if friend.kind in PETS else f"a {friend.kind}"


def topic_of(story):
    """What a user might ask for to get this story. A hero with a name may be asked for by that name."""
    topic = story.pick(story.topics)
    hero, friend = story.bound["h"], story.bound.get("f")
    name, kind = getattr(hero, "name", None), hero.attributes["kind"]
    if name is None:
        return plural(kind) if story.chance(0.06) else topic
    called = story.pick(["named", "called", "whose name is"])
    roll = story.rng.random() * (1.0 if name in KNOWN_NAMES else 0.7)
    if roll < 0.25:
        for noun in (f"a {hero.attributes['noun']} ", f"a {kind} "):
            if topic.startswith(noun):
                return topic.replace(noun, f"{noun}{called} {name} ", 1)
    if roll < 0.4:
        return story.pick(
            [
                f"a {kind} {called} {name}",
                f"{name} the {kind}",
                name,
                f"a {hero.attributes['noun']} {called} {name}",
            ]
        )
    if roll < 0.6 and friend:
        mate = mate_of(story, hero, friend, called)
        return f"{story.pick([name, f'a {kind} {called} {name}', f'{name} the {kind}'])} and {mate}"
    return topic


def articled(topic):
    return ARTICLE.sub(r"\1n ", topic)


def ask(story, patterns, topic):
    return careless(story, story.pick(patterns).format(articled(topic)))


class Conversation:
    def __init__(self, rng, system=0.2):
        self.rng = rng
        self.messages = []
        self.teller = Story(rng)
        if self.teller.chance(system):
            self.add("system", self.teller.pick(TEXTS["system"]))

    def add(self, role, content):
        self.messages.append({"role": role, "content": content})

    def turn(self, question, answer):
        self.add("user", question)
        self.add("assistant", answer)

    def new_story(self):
        return tell(Story(self.rng, TALKED_ABOUT_NAMES))

    def story_turn(self, again=False):
        """A request and its story."""
        story = self.new_story()
        if story.chance(0.85):
            topic = topic_of(story)
            question = ask(story, TEXTS["again_about"] if again else TEXTS["asks"], topic)
            lead = story.pick(TEXTS["leads"]).format(articled(topic)) if story.chance(0.12) else ""
        else:
            question = careless(story, story.pick(TEXTS["again"] if again else TEXTS["open_asks"]))
            lead = story.pick(TEXTS["open_leads"]) if story.chance(0.12) else ""
        self.turn(question, (lead + "\n\n" if lead else "") + story.text())
        return story

    def next_turn(self, story):
        sequels = TEXTS["next" if "f" in story.bound else "next_alone"]
        if story.region == "sea" and "f" in story.bound:
            sequels = [sequel for sequel in sequels if sequel.get("at_sea")]
        story.paragraphs = []
        for template in story.pick(sequels)["paragraphs"]:
            story.paragraph(template)
        last = story.line(story.pick(TEXTS["last_next"]))
        if last:
            story.paragraphs[-1] += " " + last
        self.turn(careless(story, story.pick(TEXTS["next_asks"])), story.text())

    def fact_turn(self, story):
        question, answer = story.pick(story.facts)
        self.turn(careless(story, question), answer)

    def after_story(self, story):
        roll = story.rng.random()
        if roll < 0.42:
            self.next_turn(story)
        elif roll < 0.78:
            self.fact_turn(story)
        elif roll < 0.88:
            thanks = story.pick(TEXTS["thanks"])
            self.turn(careless(story, thanks["say"]), story.pick(thanks["answers"]))
        else:
            return self.story_turn(again=True)
        return story

    def start(self):
        """How a conversation begins: mostly with the request, sometimes with a greeting or a question out of place."""
        roll = self.rng.random()
        if roll < 0.8:
            return self.story_turn()
        if roll < 0.88:
            return self.hello()
        return self.outside() if roll < 0.94 else self.continuation()

    def hello(self):
        """A greeting, and then a request or an answer to what was offered."""
        teller = self.teller
        hello = teller.pick(TEXTS["hellos"])
        answer = teller.pick(hello["answers"])
        self.turn(careless(teller, hello["say"]), answer)
        if teller.chance(0.4):
            return self.story_turn()
        story = self.new_story()
        if "about" in answer:
            request = ask(story, TEXTS["about"], topic_of(story))
        else:
            request = careless(story, story.pick(TEXTS["yes"]))
        self.turn(request, story.text())
        return story

    def outside(self):
        """A question that no story answers; a story is told instead."""
        teller = self.teller
        story = self.new_story()
        topic = articled(topic_of(story))
        question = teller.pick(TEXTS["outside"]).format(
            n=self.rng.randint(1, 99),
            m=self.rng.randint(1, 99),
            c=teller.pick(OUTSIDE_WORDS["c"]),
            l=teller.pick(OUTSIDE_WORDS["l"]),
        )
        self.turn(careless(teller, question), teller.pick(TEXTS["outside_answers"]).format(topic))
        self.turn(careless(teller, teller.pick(TEXTS["yes"])), story.text())
        return story

    def continuation(self):
        """A story's first sentence, to be continued."""
        story = self.new_story()
        first, *rest = story.paragraphs[0].split(". ")
        given = first + ("." if rest else "")
        body = "\n\n".join([". ".join(rest)] * bool(rest) + story.paragraphs[1:])
        question = self.teller.pick(TEXTS["continue"]).format(given)
        self.turn(question, body if self.teller.chance(0.6) else story.text())
        return story


def converse(rng, most_turns=6):
    """One conversation; half of them end after the first story."""
    conversation = Conversation(rng)
    story = conversation.start()
    turns = 0
    while turns < most_turns and rng.random() < 0.62:
        story = conversation.after_story(story)
        turns += 1
    return conversation.messages
