"""Conversations: somebody asks for a story, asks about it, asks how it goes on.

A conversation is a list of {"role", "content"} messages. The stories come from plots.py; what is asked for is what the
story is about, and every answer about it is true of it.
"""

from grammar import ARTICLE, Story
from lexicon import BOY_NAMES, GIRL_NAMES, PET_NAMES
from plots import tell

SYSTEM = [
    "You are a storyteller for children.",
    "You tell short stories.",
    "You are a friendly storyteller.",
    "You are Serval, a little storyteller.",
    "Tell short, kind stories.",
    "You are a helpful assistant.",
    "You are a helpful assistant who tells stories.",
    "Answer with a short story.",
]

ASKS = [
    "Tell me a story about {}.",
    "Tell me a story about {}.",
    "Tell me a short story about {}.",
    "Please tell me a story about {}.",
    "Can you tell me a story about {}?",
    "Could you tell me a story about {}?",
    "I would like a story about {}.",
    "I want a story about {}.",
    "Write a story about {}.",
    "Write a short story about {}.",
    "Write me a story about {}, please.",
    "A story about {}, please.",
    "Tell a story about {}.",
    "Do you know a story about {}?",
    "Make up a story about {}.",
    "Tell me a bedtime story about {}.",
    "Story about {}",
    "How about a story about {}?",
    "Let us hear a story about {}.",
    "Tell us about {}.",
    "My child wants a story about {}.",
    "Tell me about {}.",
    "{}",
    "{}, please",
    "About {}.",
    "Please write a bedtime story about {}.",
    "Hi! Tell me a story about {}.",
    "I love stories. Tell me one about {}!",
]
OPEN_ASKS = [
    "Tell me a story.",
    "Tell me a story, please.",
    "Please tell me a bedtime story.",
    "Tell me a bedtime story.",
    "Can you tell me a story?",
    "I want to hear a story.",
    "A story, please!",
    "Tell me something nice.",
    "Write a short story.",
    "Once upon a time...",
    "Make up a story.",
    "I can't sleep. Tell me a story.",
    "Surprise me with a story.",
    "Tell me a short story.",
    "What story do you know?",
    "It is bedtime. Tell me a story.",
]
AGAIN = [
    "Tell me another story.",
    "Another one, please.",
    "Another story!",
    "One more story, please.",
    "Tell me one more.",
    "Now tell me a different story.",
    "More stories!",
]
AGAIN_ABOUT = [
    "Now tell me a story about {}.",
    "And now one about {}.",
    "Another one, about {}, please.",
    "Do you also know a story about {}?",
    "Tell me another story, about {}.",
]
LEADS = [
    "Here is a story about {}.",
    "Of course! Here is a story about {}.",
    "Yes, I know a story about {}.",
    "A story about {}? Listen.",
    "Gladly. This is a story about {}.",
]
OPEN_LEADS = [
    "Of course! Listen.",
    "Here is one.",
    "Gladly.",
    "All right, here is a story.",
    "Yes! Make yourself comfortable.",
]

NEXT_ASKS = [
    "What happened next?",
    "What happened next?",
    "And then?",
    "What happened then?",
    "What happened the next day?",
    "Tell me more.",
    "Go on.",
    "Continue.",
    "Please go on.",
    "How does it go on?",
    "More, please.",
    "What did they do then?",
    "And what happened after that?",
    "Keep going.",
]
NEXT = [
    [
        'the next {morning|day}, [f] came to see [h]. "{Let us go|Shall we go} to [place2]," said [f]. "I {want to show you something|have found something}." [h] was {curious|very curious}, and off they [f.went].',
        '[place2.at] they found {a tiny door|a nest with three eggs|a path they had never seen|a little boat|a hollow full of {berries|flowers|feathers}|an old box}. "{Who lives there|Where does it come from|What can it be}?" asked [h]. they looked at it for a long time, and they promised to come back every day.',
        "and they did. it was their own secret place.",
    ],
    [
        "after that, [h] and [f] {met every day|were always together|had many adventures}. when it rained, they {told each other stories|played inside|listened to the drops}, and when the sun was out, they [f.went] to [place2].",
        'one day, they met somebody small and sad. "Nobody wants to play with me," {said|sobbed} the little one. [h] looked at [f], and [f] looked at [h]. "Come with us!" they said. and then there were three of them.',
    ],
    [
        'a few days later, [h] woke up and sneezed. [h.they] was ill and had to stay in bed. "What a pity," thought [h]. "The sun is out, and I am all alone."',
        'but then the door opened, and there was [f] with {a bowl of [food]|a pot of tea|a bunch of flowers}. "Now I will take care of you," said [f]. [f.they] stayed all day, and {told stories|sang songs}, and by the evening [h] was much better.',
    ],
    [
        "that winter it was very cold. [h] and [f] made a fire and invited everyone. they ate [food2] and told the story again and again, and each time it got a little longer.",
        '"And is it true?" asked the little ones. [h] winked. "Every word of it," [h.they] said.',
    ],
    [
        "the next day, [h] wanted to thank [f]. so [h.they] got up early and made [food]. [h.they] {burned|spilled|ate} the first lot, but the second was {very good|just right}.",
        'when [f] opened the door, there stood [h] with a big {bowl|plate}. "For me?" asked [f]. they sat down [place.at] and ate until nothing was left. "You are the best friend in the world," said [f].',
    ],
    [
        'when [h] came home, everyone wanted to hear what had happened. [h] told them everything, from the beginning to the end. "Were you not afraid?" asked the others. "A little," said [h], "but [f] was with me."',
        'that night [h] dreamed of {flying over [place]|a new adventure|a land made of [food]}. and in the morning, [f] knocked at the door. "Are you ready?" asked [f]. "I am ready," said [h].',
    ],
    [
        "one year later, there was a big party [place.at]. there were lights in the trees and [food] for everyone. [h] and [f] danced until their feet hurt.",
        '"Do you remember how it all began?" asked [f]. "I will never forget it," said [h]. they looked up at the stars and were very happy.',
    ],
]
SEA_NEXT = [NEXT[1], NEXT[5]]
NEXT_ALONE = [
    [
        '{the next day|the next morning}, {a small bird|a child|an old woman} came by and heard the story. "How wonderful," {it was said|said the visitor}. "I must tell everyone about the [h.noun]." and soon people came from far and wide.',
        "the [h.kind] was never lonely again.",
    ],
    [
        "{a year|many years} went by, but the [h.kind] never forgot that day. sometimes, when it was quiet, it told the story to {the wind|the little ones|anyone who would listen}.",
        'and they all said, "Tell it once more!"',
    ],
    [
        "after that, the [h.kind] made a new friend. it was {a mouse|a sparrow|a snail|a firefly} who came every evening to listen.",
        "they talked about {the stars|the rain|far away lands}, and they were both [#happy].",
    ],
]
LAST_NEXT = [
    "and everyone slept well that night.",
    "the end.",
    "and what happened after that is another story.",
    "",
    "",
    "and they were happy.",
]

THANKS = [
    (
        "Thank you!",
        [
            "You are welcome! Sweet dreams.",
            "You are welcome. Come back when you want another story.",
            "It was a pleasure. Good night!",
            "I am glad you liked it.",
        ],
    ),
    (
        "That was a nice story.",
        ["Thank you! Shall I tell you another one?", "I am glad you liked it. Would you like one more?"],
    ),
    (
        "I liked it.",
        ["I am so glad! Shall I tell you another one?", "That makes me happy. Would you like another story?"],
    ),
    ("Good night!", ["Good night! Sleep well.", "Good night, and sweet dreams!"]),
    ("Bye!", ["Goodbye! Come back soon.", "Bye! I will have a new story for you next time."]),
    (
        "Thanks, that was lovely.",
        ["You are welcome! Shall I tell you another one?", "Thank you for listening."],
    ),
    ("Is it a true story?", ["It is a made-up story, but a good one.", "I made it up for you."]),
    (
        "I did not like it.",
        [
            "Oh, I am sorry. Shall I tell you a different one?",
            "I am sorry. What would you like to hear about?",
        ],
    ),
]
HELLOS = [
    ("Hello!", ["Hello! Would you like to hear a story?", "Hello there! Shall I tell you a story?"]),
    ("Hi", ["Hi! What should my story be about?", "Hi! Would you like a story?"]),
    ("Good evening.", ["Good evening! It is a good time for a story. What should it be about?"]),
    (
        "How are you?",
        [
            "I am well, thank you. Shall I tell you a story?",
            "I am fine and full of stories. Would you like one?",
        ],
    ),
    (
        "Who are you?",
        [
            "I am a little storyteller. I make up short stories. What should my story be about?",
            "I am a very small language model, and I tell stories. Would you like one?",
        ],
    ),
    (
        "What can you do?",
        [
            "I can tell little stories about animals, people and things. What would you like to hear about?",
            "I tell short stories. Just say what it should be about.",
        ],
    ),
    ("What is your name?", ["I am Serval's little storyteller. Shall I tell you a story?"]),
    ("Hey there!", ["Hey! Shall I tell you a story?"]),
    ("Good morning!", ["Good morning! Would you like to start the day with a story?"]),
]
OUTSIDE = [
    "What is {n} plus {m}?",
    "What is the capital of {c}?",
    "Write a program that sorts numbers.",
    "What is the weather like?",
    "Who is the president?",
    "How far away is the sun?",
    "Translate this into {l}.",
    "What time is it?",
    "Explain how a car works.",
    "Can you help me with my homework?",
    "What do you think about politics?",
    "How do I make money?",
    "Solve this equation.",
    "Who won the game?",
    "What is the meaning of life?",
    "Write an email to my boss.",
    "What is machine learning?",
]
OUTSIDE_ANSWERS = [
    "I do not know that. I only know stories. Shall I tell you one about {}?",
    "That is too hard for me, but I can tell you a story about {}.",
    "I am only a little storyteller. Would you like a story about {}?",
    "Oh, I do not know. But I do know a story about {}!",
]
YES = [
    "Yes, please.",
    "Yes please.",
    "Please!",
    "Of course.",
    "Why not?",
    "Yes!",
    "Yes please",
    "OK",
    "Sure, go on.",
    "Oh yes!",
    "All right.",
]
CONTINUE = [
    "Continue this story: {}",
    "Finish this story: {}",
    "How does this story go on? {}",
    "Please continue: {}",
    "Write a story that begins like this: {}",
    "{}",
]


def careless(story, text):
    """How people type: sometimes all in lower case, sometimes without the last stop."""
    if story.chance(0.15):
        text = text.rstrip(".?!")
    return text.lower() if story.chance(0.15) else text


IRREGULAR = {
    "mouse": "mice",
    "goose": "geese",
    "fish": "fish",
    "sheep": "sheep",
    "wolf": "wolves",
    "calf": "calves",
    "thief": "thieves",
    "deer": "deer",
    "elf": "elves",
    "snowman": "snowmen",
    "child": "children",
    "old woman": "old women",
    "old man": "old men",
    "fisherman": "fishermen",
    "postman": "postmen",
    "policeman": "policemen",
}
PETS = [
    "dog",
    "cat",
    "puppy",
    "kitten",
    "mouse",
    "horse",
    "pony",
    "robot",
    "goose",
    "duck",
    "parrot",
    "dragon",
    "teddy bear",
]


def plural(noun):
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "sh", "ch", "z")) else "s")


def topic_of(story):
    """A request that this story could answer; characters with a name may be requested by name."""
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
        their = f"{hero.attributes['their']} {friend.kind}"
        mate = (
            story.pick(
                [friend.name, f"{friend.name} the {friend.kind}", f"a {friend.kind} {called} {friend.name}"]
            )
            if friend.name
            else their if friend.kind in PETS else f"a {friend.kind}"
        )
        return f"{story.pick([name, f'a {kind} {called} {name}', f'{name} the {kind}'])} and {mate}"
    return topic


def articled(topic):
    return ARTICLE.sub(r"\1n ", topic)


def ask(story, patterns, topic):
    return careless(story, story.pick(patterns).format(articled(topic)))


# In a conversation more names are invented ones, and most of those are asked for: an answer keeps the asker's names.
TALKED_ABOUT_NAMES = 0.4
KNOWN_NAMES = frozenset(GIRL_NAMES + BOY_NAMES + PET_NAMES)


class Conversation:
    def __init__(self, rng, system=0.2):
        self.rng = rng
        self.messages = []
        self.teller = Story(rng)
        if self.teller.chance(system):
            self.add("system", self.teller.pick(SYSTEM))

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
            question = ask(story, AGAIN_ABOUT if again else ASKS, topic)
            lead = story.pick(LEADS).format(articled(topic)) if story.chance(0.12) else ""
        else:
            question = careless(story, story.pick(AGAIN if again else OPEN_ASKS))
            lead = story.pick(OPEN_LEADS) if story.chance(0.12) else ""
        self.turn(question, (lead + "\n\n" if lead else "") + story.text())
        return story

    def next_turn(self, story):
        alone = "f" not in story.bound
        sequel = story.pick(NEXT_ALONE if alone else SEA_NEXT if story.region == "sea" else NEXT)
        story.paragraphs = []
        for template in sequel:
            story.paragraph(template)
        last = story.line(story.pick(LAST_NEXT))
        if last:
            story.paragraphs[-1] += " " + last
        self.turn(careless(story, story.pick(NEXT_ASKS)), story.text())

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
            question, answers = story.pick(THANKS)
            self.turn(careless(story, question), story.pick(answers))
        else:
            return self.story_turn(again=True)
        return story

    def start(self):
        """How a conversation begins: mostly with the request, sometimes with a greeting or a question out of place."""
        teller = self.teller
        roll = teller.rng.random()
        if roll < 0.8:
            return self.story_turn()
        if roll < 0.88:
            question, answers = teller.pick(HELLOS)
            answer = teller.pick(answers)
            self.turn(careless(teller, question), answer)
            if teller.chance(0.4):
                return self.story_turn()
            story = self.new_story()
            if "about" in answer:
                self.turn(
                    ask(
                        story,
                        ["{}", "{}, please.", "About {}.", "It should be about {}.", "A story about {}."],
                        topic_of(story),
                    ),
                    story.text(),
                )
            else:
                self.turn(careless(story, story.pick(YES)), story.text())
            return story
        if roll < 0.94:
            story = self.new_story()
            topic = articled(topic_of(story))
            question = teller.pick(OUTSIDE).format(
                n=teller.rng.randint(1, 99),
                m=teller.rng.randint(1, 99),
                c=teller.pick(["France", "Japan", "Kenya", "Peru", "India", "Norway", "Spain", "Egypt"]),
                l=teller.pick(["French", "German", "Spanish", "Chinese"]),
            )
            self.turn(careless(teller, question), teller.pick(OUTSIDE_ANSWERS).format(topic))
            self.turn(careless(teller, teller.pick(YES)), story.text())
            return story
        story = self.new_story()
        sentences = story.paragraphs[0].split(". ")
        given = ". ".join(sentences[:1]) + ("." if len(sentences) > 1 else "")
        rest = ". ".join(sentences[1:])
        body = "\n\n".join([rest] * bool(rest) + story.paragraphs[1:])
        self.turn(teller.pick(CONTINUE).format(given), body if teller.chance(0.6) else story.text())
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
