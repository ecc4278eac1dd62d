"""The shapes of stories: each function tells one kind of story from beginning to end.

A plot settles a region, casts its characters, tells paragraph after paragraph, and leaves topics (what one would ask for
to get this story) and facts (questions about it with their answers) behind. What comes early comes back at the end.
"""

from grammar import KINDS, Referent
from lexicon import END_LINES, MORALS, REGIONS, WISE_KINDS
from wishes import PLAIN_WISHES, WISHES

# Parts that many shapes share ------------------------------------------------------------------------------------

OPENINGS = [
    "once upon a time, {there was [h.intro] who lived|there lived [h.intro]} [home.at].",
    "once upon a time, [whole.in], there {was|lived} [h.intro].",
    "once there was [h.intro] who lived [home.at].",
    "there once was [h.intro] who lived [whole.in].",
    "long ago, [whole.in], there lived [h.intro].",
    "[h.intro] lived [home.at].",
    "[home.at] lived [h.intro].",
    "{far away|not so long ago|a long time ago|many years ago}, [h.intro] lived [whole.in].",
    "in a {small|cosy|tiny|little} {home|house|place} [home.at] lived [h.intro].",
    "this is the story of [h.intro] who lived [home.at].",
    "everybody [whole.in] knew [h.intro].",
    "it was {a sunny|a windy|a rainy|a warm|a cold|a quiet|the first} day of {spring|summer|autumn|winter} [whole.in]. [h.intro] {woke up early|sat [home.at]|looked around}.",
    '"{Good morning|Hello}, {sun|world|everyone}!" said [h.intro]. [h.they] lived [home.at].',
    "the {sun|moon} {was just coming up|rose} over [home]. [h.intro] {yawned|opened one eye|stretched}.",
    "once upon a time there was [h.intro].",
    "once upon a time, there was [h.intro].",
    "there was once [h.intro].",
    "once there lived [h.intro].",
    "in a land far away there lived [h.intro].",
    "[whole.in] there was [h.intro].",
    "have you heard the story of [h.intro]? [h.they] lived [home.at].",
    "every morning, when the sun came up over [home], [h.intro] {said hello to the day|came out to play|hummed a little song}.",
    "[home.at], where {the wind always sings|nobody ever hurries|the light is soft}, lived [h.intro].",
    "one {sunny|rainy|windy|cold|fine} {morning|day|afternoon}, [h.intro] [h.went] {out|along} [whole.in].",
    "it was {raining|snowing|windy|late|early|very hot|very quiet} [whole.in], and [h.intro] was {bored|hungry|sleepy|all alone|wide awake}.",
    "it was a {dark and stormy|cold|clear|quiet} night. [home.at] sat [h.intro].",
    "[h.intro] loved {stories|the rain|music|Sundays|the stars|adventures|the smell of [food]} more than anything.",
    "[h.intro] {looked up at the sky|looked out over [place]|put on a {red|blue|green} coat|jumped out of bed|hummed a tune|took a deep breath}.",
    "nobody [whole.in] was as {happy|small|curious|brave|lazy|kind|loud|quiet} as [h.intro].",
    "there are many stories about [whole], and this one is about [h.intro].",
    "{last summer|last winter|when the world was young|in the old days|one hundred years ago}, [h.intro] lived [home.at].",
    "[place] was the {best|quietest|prettiest|strangest} place [whole.in]. that is where [h.intro] lived.",
]
# Openings that could be anybody's: something happens, often for no good reason, and the story goes on from there.
HAPPENED = [
    "was {angry|hungry|thirsty|sleepy|bored|late|cold|very tired|in a bad mood|in a good mood|ill|excited|nervous}",
    "could not {breathe fire|swim|read|sing|sleep|count|find the door|stop laughing|remember anything|sit still}",
    "had {lost a shoe|a cold|a secret|a strange dream|an idea|no money|a new hat|a bad day|a big problem|an old suitcase|too many spoons|a birthday}",
    "{opened the door|looked out of the window|came home late|got up early|went to the market|fell out of bed|painted the door blue|sat on the roof|missed the bus|ran down the street|hid under the table|built a tower|landed [place.at]|arrived [place.at]|stopped [place.at]|worked {all day|all night}|wrote a letter|found a {letter|coin|strange footprint|small box} [place.at]|lived alone|lived with [h.their] {mother|grandmother|brother|sister}}",
    "{liked|loved|hated} {Mondays|soup|the rain|loud music|to sleep late|old books|the colour green|long walks|to cook|cheese|to play|the sea|animals|apples|football}",
    "{wanted|needed|looked for} {a new coat|a friend|a house|some help|a quiet place|an adventure|a job|peace and quiet}",
    "{was the best|was the worst|was the fastest} {cook|singer|painter|builder|sailor|jumper} [whole.in]",
]
BECAUSE = [
    "because it was {Monday|raining|summer|snowing|dark|too hot|Sunday}",
    "because nobody had said good morning",
    "because the soup was cold",
    "because [h.their] {friends|brothers|sisters} were {away|asleep|busy}",
    "because somebody had {eaten the cake|closed the door|broken the window}",
    "and nobody knew why",
    "and did not know what to do",
    "and that was that",
    "as always",
    "again",
    "all by [h.self]",
    "on {Monday|Tuesday|the first day of spring|a cold day}",
    "but nobody {noticed|cared|saw it}",
    "and {smiled|sighed|laughed|cried|yawned}",
]
FREE_OPENINGS = [
    "[h.intro] [happened].",
    "[h.intro] [happened] [because].",
    "[h] [happened] [because]. [h.they] was a [h.kind] and lived [home.at].",
    "[h] [happened]. [h.they] was a [h.noun].",
    "one {day|morning|night|evening}, [h.intro] [happened].",
    "it all began when [h.intro] [happened] [because].",
    "{once|one day|in {spring|summer|autumn|winter}|yesterday|long ago}, [h.intro] [happened] [because].",
    "it was {a cold|a hot|a strange|a long|a normal|a beautiful|the last} {day|night|morning|winter|summer}, and [h.intro] [happened].",
]
NAMED_OPENINGS = [
    "[h] was a [h.noun].",
    "[h] was a [h.noun] who lived [home.at].",
    "[h] the [h.kind] lived [home.at].",
    "the {smallest|youngest|oldest|quietest|happiest} [h.kind] [whole.in] was called [h].",
    "there was a [h.noun], and [h.their] name was [h].",
    "once there was a [h.noun]. [h.their] name was [h].",
    "my {grandmother|grandfather|aunt} once told me about [h.full].",
]
UNNAMED_OPENINGS = [
    "the [h.noun] lived [home.at].",
    "a [h.noun] sat [home.at].",
    "once there was a [h.noun] with no name at all.",
    "the [h.noun] woke up and looked around.",
]

HABITS = [
    "every day [h.they] [h.went] {from [home] to [place]|down to [place]|around [place] and back}.",
    "[h.they] loved to eat [food].",
    "[h.their] favourite food was [food].",
    "[h.they] liked {rainy days|sunny days|windy days|the smell of [food]|the quiet of the evening|to look at the clouds|to sing}.",
    "[h.they] knew every corner of [whole].",
    "[h.they] had {two brothers|three sisters|a big family|a very old grandmother|many cousins|a bed full of soft leaves}.",
    "in the evening [h.they] liked to sit [place.at].",
]
SEA_HABITS = [
    "every day [h.they] [h.went] {from [home] to [place]|around [place] and back}.",
    "[h.they] loved to eat [food].",
    "[h.they] knew every corner of [whole].",
    "in the evening [h.they] liked to rest [place.at].",
]


def opening(s, trait=0.5, habit=0.45):
    """Two to four first sentences that introduce the hero and where it lives."""
    s.bound.setdefault("food", "bread")
    options = OPENINGS + OPENINGS[:4] + (NAMED_OPENINGS * 2 if s.bound["h"].name else UNNAMED_OPENINGS)
    if s.chance(0.3):
        s.bound.update(happened=s.say(HAPPENED), because=s.say(BECAUSE))
        options = FREE_OPENINGS
    pieces = [s.pick(options)]
    if s.chance(trait):
        s.trait()
        pieces.append(
            s.pick(
                [
                    "[h.they] was {very|always|a little} [trait] and [traitshow].",
                    "[h.they] was a {very|rather} [trait] [h.kind], who [traitshow].",
                    "[h] [traitshow].",
                    "people said that [h.they] was [trait], because [h.they] [traitshow].",
                    "[h.they] was [trait], and [h.they] had a {good|big|warm} heart.",
                ]
            )
        )
    if s.chance(habit):
        pieces.append(s.pick(SEA_HABITS if "sea" in s.bound["h"].tags else HABITS))
    elif s.chance(0.2):
        pieces.append("[#weather]" if s.region != "sea" else "")
    kind_fact = s.pick([f"a [h.noun]", "a [h.kind]"])
    s.fact(
        [
            "Who is the story about?",
            "Who was the story about?",
            "What animal was it?" if "person" not in s.bound["h"].tags else "Who was it about?",
        ],
        [f"it is about [h.intro].", f"it was {kind_fact}."],
    )
    if s.bound["h"].name:
        s.fact(
            [
                "What was the [h.kind]'s name?",
                "What was the name of the [h.kind]?",
                "What was [h.their] name?",
            ],
            ["[h.their] name was [h].", "the [h.kind]'s name was [h].", "[h.they] was called [h]."],
        )
    s.fact(
        ["Where did [h] live?", "Where did [h.they] live?", "Where does the story happen?"],
        ["[h.they] lived [whole.in].", "[h] lived [home.at], [whole.in]."],
    )
    return pieces


def ending(s, moral=None, thing=False, final=0.85):
    """The last paragraph: what was learned, a look back at the treasured thing, a closing line."""
    pieces = []
    if thing and s.chance(0.75):
        pieces.append(
            s.pick(["and [thing.end].", "that evening, [thing.end].", "and, of course, [thing.end]."])
        )
    if moral and s.chance(0.5):
        s.bound["m"] = s.say(s.pick(moral))
        pieces.append(s.pick(MORALS))
    if s.chance(0.25) and s.region != "sea":
        pieces.append("then [#supper].")
    if s.chance(final) or not pieces:
        pieces.append(s.pick(END_LINES))
    s.paragraph(*pieces)


def meet(s):
    """The helper comes by and asks."""
    return s.pick(
        [
            "just then, [f.intro] came by.",
            "then [h.they] met [f.intro] [place.at].",
            "along came [f.intro].",
            "[place.at] sat [f.intro].",
            "[f.intro] had been watching from [place].",
            "[f.intro] [f.went] over to [h].",
            '"Psst!" said a voice. it was [f.intro].',
            "that was when [h] saw [f.intro].",
            "the next {day|morning}, [f.intro] came to visit.",
        ]
    )


def friend_fact(s, helped="helped [h]"):
    s.fact(
        ["Who helped [h]?", "Who helped [h.them]?", "Who was the friend?"],
        [f"[f.full] {helped}.", f"it was [f.full] who {helped}."],
    )


# Wishes ------------------------------------------------------------------------------------------------------------

WANTS = [
    "more than anything, [h] wanted to [inf].",
    "[h] had one big wish: [h.they] wanted to [inf].",
    "but there was one thing [h.they] wanted most of all. [h.they] wanted to [inf].",
    "every night [h.they] dreamed of [ing].",
    '"I want to [inf]," [h] said {every day|one morning|to everyone [h.they] met}.',
    "[h] wished with all [h.their] heart to [inf].",
    "[#oneday], [h] decided to [inf].",
    '"If only I could [inf]," sighed [h].',
    "all day long [h.they] thought of only one thing: [ing].",
    "there was nothing [h.they] wanted more than to [inf].",
    '"One day I will [inf]," [h.they] said.',
    "[h] wanted to [inf].",
    "[h.they] had never [h.they2] before, but [h.they] wanted to [inf].",
]
PLAIN_TRIES = [
    "first, [h] tried it all alone, but it did not work.",
    'then [h.they] asked [x.intro] how to do it. "{I do not know|I have never tried|That is too hard for you}," said [x].',
    "[h] tried it with closed eyes, and bumped into [place].",
    "[h.they] tried it in the morning, and [h.they] tried it at night, but it always went wrong.",
    "[h] practised for {three|four|five|seven} days, and on the last day [h.they] was no better than on the first.",
    "then [h.they] tried it very fast, and fell right on [h.their] nose.",
    "[h] tried it very slowly, but that did not help.",
    "[h.they] looked for a book about it, but there was none.",
    'the others laughed. "You can never [inf]," they said.',
    "[h] got everything ready [place.at], but then it began to rain.",
    "[h.they] watched how the big ones did it and tried to do the same. it was much harder than it looked.",
    '"It can\'t be that hard," said [h]. but it was.',
]
PLAIN_ADVICE = [
    '"I could not do it at first either," said [f]. "I will show you, step by step."',
    '"You are in too much of a hurry," said [f]. "Take your time, and breathe."',
    '"Let us try together," said [f].',
    '"You almost have it," said [f]. "Try once more, just a little differently."',
    '"I have a good idea," said [f], and whispered something into [h.their] ear.',
    '"Everybody learns by falling down and getting up," said [f]. "Come, I will help you."',
    '"It is easier with two," said [f].',
]
PLAIN_ENDS = [
    "so they tried together, once, twice, and a third time. and then, at last, [h] [past]!",
    "[f] showed [h.them] how, and [h] practised every day. and one fine morning, [h] [past], all by [h.self].",
    "they worked at it until the evening, and then it happened. [h] [past]!",
    "the very next day, [h] tried again, a little differently. and this time [h.they] [past].",
    "this time [h] was not in a hurry. and before [h.they] knew it, [h.they] [past].",
]
PLAIN_AFTERS = [
    '"I did it!" cried [h]. "I really did it!"',
    "everyone came to see it, and they clapped and cheered.",
    '"I knew you could," said [f].',
    "[f] was as happy as [h].",
    'the others did not laugh any more. "Teach us too!" they said.',
]
WISH_MORALS = [
    "you can do more with a friend than alone",
    "it is good to ask for help",
    "nothing is too hard if you keep on trying",
    "wishes come true in their own way",
    "you should never stop trying",
    "big wishes start with small steps",
]


def wish(s):
    if s.chance(0.78):
        w = s.pick(WISHES)
        where = w.get("where", "")
        regions = (
            where.split() if where not in ("", "*") else [r for r in REGIONS if where == "*" or r != "sea"]
        )
        if "sea" in w["no"].split():
            regions = [r for r in regions if r != "sea"]
        s.settle(s.pick(regions))
        kinds = s.kinds_here(w["no"].split())
        s.hero(kind=s.pick(kinds) if s.chance(0.95) else s.invent_kind())
        helpers = [k.replace("_", " ") for k in w["helpers"].split()]
        if s.region == "sea":
            helpers = [k for k in helpers if "sea" in KINDS[k][3]] or s.kinds_here()
        else:
            helpers = [k for k in helpers if "sea" not in KINDS[k][3] or s.region == "seaside"]
        inf, past, ing, why = w["inf"], w["past"], w["ing"], s.pick(w["why"])
        tries, advice, end, after = w["tries"], w["advice"], w["end"], w["after"]
    else:
        inf, past, ing, no = s.pick(PLAIN_WISHES)
        s.settle(without=("sea",) if "sea" in no.split() else ())
        s.hero(no.split())
        helpers, why = None, ""
        tries, advice, end, after = PLAIN_TRIES, PLAIN_ADVICE, PLAIN_ENDS, PLAIN_AFTERS
    s.bound.update(inf=inf, past=past, ing=ing)
    helpers = [k for k in helpers if k != s.bound["h"].kind] if helpers else None
    s.other("f", helpers)
    s.other("x", named=False)
    if inf in ("skate on the ice", "keep warm in winter") and s.region != "snow":
        s.paragraph("it was a cold, white winter [whole.in].", *opening_indoor(s))
    thing = s.chance(0.3)
    if thing:
        s.treasure()
    intro = [] if s.paragraphs else opening(s)
    wants = [w for w in WANTS if "they2" not in w]
    if thing:
        intro.append("[h.they] had a [thing] and [thing.use].")
    intro.append(s.pick(wants))
    if why:
        intro.append(
            s.pick(
                [
                    f"{why}.",
                    f"{why}.",
                    (
                        f"\"You see,\" [h.they] said, \"{why.replace('[h.they] was', 'I am')}.\""
                        if "[h" not in why
                        else f"{why}."
                    ),
                ]
            )
        )
    s.paragraph(*intro)
    chosen = s.some(tries, 1, 3)
    chosen.sort(key=lambda t: not t.startswith("first"))
    if len(chosen) > 1 and chosen[1].startswith("first"):
        chosen.pop(1)
    pieces = []
    for index, attempt in enumerate(chosen):
        if index:
            pieces.append(s.maybe(0.6, "[#never_give_up]"))
            attempt = attempt.removeprefix("first, ")
        elif attempt.startswith("then "):
            attempt = "first " + attempt.removeprefix("then ")
        elif attempt.startswith("next, "):
            attempt = "first, " + attempt.removeprefix("next, ")
        pieces.append(attempt)
    s.paragraph(*pieces)
    asked = s.pick(
        [
            '"[#why_sad]" {asked|said} [f].',
            '"[#why_sad]" asked [f]. "I want to [inf]," said [h], "but {I do not know how|it never works|I can\'t do it alone}."',
            '"Can you help me?" asked [h]. "I want to [inf]."',
            "[h] told [f.them] everything.",
        ]
    )
    s.paragraph(meet(s), asked, s.pick(advice))
    s.paragraph(s.pick(end), s.maybe(0.35, "[#thanks] [#welcome]"), s.pick(after))
    ending(s, WISH_MORALS, thing, 0.75)
    s.about(
        f"a [h.kind] who wants to {inf}",
        f"a [h.kind] who wanted to {inf}",
        f"a [h.noun] who wants to {inf}",
        f"{ing}",
    )
    s.title = s.say("the [h.kind] who wanted to [inf]")
    s.fact(
        ["What did [h] want?", "What did [h] wish for?", "What did [h.they] want to do?"],
        [
            "[h.they] wanted to [inf].",
            "[h.their] wish was to [inf].",
            "more than anything, [h.they] wanted to [inf].",
        ],
    )
    s.fact(
        ["Did it work?", "Did [h] do it in the end?", "How did it end?"],
        [
            "yes! with the help of [f], it came true at last.",
            "yes. at first it went wrong, but then [f] helped, and it worked.",
        ],
    )
    friend_fact(s)


def opening_indoor(s):
    return ["[h.intro] {looked out of the window|watched the snow fall|sat [home.at]}."]


# Lost and found --------------------------------------------------------------------------------------------------


def lost_thing(s):
    s.settle()
    s.hero()
    s.treasure()
    s.other("f")
    s.other("x", named=False)
    s.paragraph(
        *opening(s),
        s.pick(
            [
                "[h] had a [thing] and [thing.use].",
                "[h.their] dearest thing was a [thing]. [h.they] [thing.use].",
                "[h.their] {grandmother|grandfather|best friend|aunt} had given [h.them] a [thing], and [h.they] [thing.use].",
            ]
        ),
    )
    s.paragraph(
        s.pick(
            [
                "but [#dayonly], the [thing.noun] was gone.",
                "[#dayonly], [h] woke up and the [thing.noun] was not there.",
                "[#dayonly], [h] looked for the [thing.noun], but it was nowhere to be seen.",
                "then, [#dayonly], [h] lost the [thing.noun].",
            ]
        ),
        [
            '"Oh no!" {cried|said} [h]. "Where is my [thing]?"',
            '"It was here yesterday," said [h].',
            '"I must find it," said [h] with tears in [h.their] eyes.',
            "[h] felt {very |so |}[#sad].",
        ],
    )
    pieces = [
        (
            "[h.they] looked [place.at], but there was {nothing but {leaves|dust|shadows}|only a sleepy beetle|nothing there}."
            if s.region != "sea"
            else "[h.they] looked [place.at], but there was nothing but sand."
        ),
        s.maybe(
            0.6,
            "[h.they] looked [home.at]. {it was not there|no [thing.noun]} either.",
            "[h.they] looked high and low.",
        ),
        (
            'then [h.they] asked [x.intro]. "Have you seen my [thing]?" "No," said [x], "but {ask [f.full]|I will help you look|I saw something shiny [place2.at]}."'
            if s.chance(0.6)
            else ""
        ),
    ]
    s.paragraph(*pieces)
    found = s.pick(
        [
            (
                '[f.intro] was sitting [place2.at], holding the [thing]. "Is this yours?" asked [f]. "I found it {in the grass|on the ground|this morning}. I wanted to give it back, but I did not know whose it was."',
                "found it and gave it back",
            ),
            (
                '[f.intro] helped [h] look. together they [h.went] to [place2], and there, half hidden, lay the [thing]. "There it is!" shouted [f].',
                "helped to look for it",
            ),
            (
                'at last [h.they] found [f.intro] [place2.at], crying. "I took your [thing.noun]," said [f] softly. "It was so pretty. I am sorry." [h] was quiet for a moment. "You could have asked me," said [h]. "We can share it."',
                "had taken it and gave it back",
            ),
            (
                'when [h.they] came to [place2], [h.they] saw [f.intro] fast asleep, with the [thing] tucked in close. [f] was cold and all alone. [h] {smiled|thought for a while}. "You can keep it tonight," [h.they] whispered.',
                "had it",
            ),
        ]
        if s.bound["thing"].attributes["noun"] not in ("kite", "boat", "wagon", "map")
        else [
            (
                '[f.intro] was waiting [place2.at] with the [thing]. "The wind brought it to me," said [f]. "I have kept it safe for you."',
                "kept it safe",
            ),
            (
                '[f.intro] helped [h] look. together they [h.went] to [place2], and there, half hidden, was the [thing]. "There it is!" shouted [f].',
                "helped to look for it",
            ),
        ]
    )
    s.paragraph(found[0])
    if "share" in found[0] or "keep it tonight" in found[0]:
        s.paragraph(
            [
                "after that, the two of them were friends, and the [thing.noun] belonged to both of them.",
                "from then on they took turns with the [thing.noun], one day [h] and one day [f].",
            ]
        )
        moral = ["sharing makes a thing twice as good", "a friend is worth more than any [thing.noun]"]
    else:
        s.paragraph(
            "[#thanks] [#welcome]",
            s.maybe(
                0.5,
                "[h] held the [thing.noun] tight all the way home.",
                "and [h] promised to take better care of it.",
            ),
        )
        moral = [
            "good friends help you look",
            "it is good to take care of the things you love",
            "nothing is ever lost if somebody helps you look",
        ]
    ending(s, moral, True)
    s.about(
        "a lost [thing.noun]",
        "a [h.kind] who lost a [thing.noun]",
        "a [h.kind] and a [thing.noun]",
        "a [h.kind] who loses a [thing]",
        "a [thing]",
    )
    s.title = s.say("the lost [thing.noun]")
    s.fact(["What did [h] lose?", "What was lost?"], ["[h.they] lost a [thing].", "it was a [thing]."])
    s.fact(
        ["Where was it?", "Where was the [thing.noun] in the end?"],
        ["it was [place2.at].", f"[f] {found[1]}, [place2.at]."],
    )


def lost_little_one(s):
    s.settle()
    s.hero()
    baby = s.pick(
        [
            k
            for k in (
                "duckling chick kitten puppy lamb fawn mouse rabbit frog owl hedgehog bear_cub".split()
                if s.region != "sea"
                else ["fish", "seahorse", "starfish", "dolphin"]
            )
            if k.replace("_", " ") != s.bound["h"].kind
        ]
    ).replace("_", " ")
    s.cast("f", baby, s.chance(0.5), None)
    s.bound["f"].adjective = "little"
    s.bound["f"].attributes["noun"] = f"little {baby}"
    s.other("x", named=False)
    s.paragraph(*opening(s))
    s.paragraph(
        [
            "[#dayonly], [h] heard somebody crying [place.at].",
            "[#dayonly], [h.they] heard a tiny sound [place.at]. sniff, sniff.",
            'on the way to [place2], [h] heard a small voice. "Help! Help!"',
        ],
        [
            'it was [f.intro]. "I can\'t find my {mother|mother|father|family|way home}," {sobbed|said} [f].',
            '[place.at] sat [f.intro], all alone. "I am lost," {said|whispered|sobbed} [f].',
        ],
        [
            '"Don\'t cry," said [h]. "We will find {them|the way} together."',
            '"I will help you," said [h] kindly. "What do you remember?" "There was {a tall tree|a big stone|water|a funny smell} near our home," said [f].',
        ],
    )
    s.paragraph(
        [
            "first they [h.went] to [place2], but nobody was there.",
            'they asked [x.intro]. "{I heard somebody calling|Somebody was looking for a little one|Try that way}," said [x], and pointed {over the hill|to the other side|behind [place2]}.',
            "they looked everywhere, and [h] {sang a song|told a story|shared some [food]} so that [f] would not be afraid.",
        ],
        s.maybe(
            0.6,
            "it grew late. [f] held on tight to [h].",
            '"Are we there yet?" asked [f]. "Soon," said [h].',
            "[f] was tired, so [h] carried [f.them] on [h.their] back.",
        ),
    )
    s.paragraph(
        [
            (
                'and then they heard a voice. "[f]! Where are you?" It was [f.their] mother!'
                if s.bound["f"].name
                else 'and then they heard a voice. "My little one! Where are you?" It was the mother!'
            ),
            '[place2.at] they saw a mother {running|looking} here and there. "My little one!" she cried.',
        ],
        "[f] {ran|rushed} into [f.their] mother's arms.",
        [
            '"Thank you for bringing my child home," said the mother. "You have a kind heart."',
            '"How can I thank you?" asked the mother. "It was nothing," said [h].',
        ],
        s.maybe(
            0.5,
            "they gave [h] {a basket of [food]|a big hug|a seat at the table}, and [h] stayed for supper.",
        ),
    )
    ending(
        s,
        [
            "it feels good to help somebody",
            "a kind heart always finds the way",
            "nobody should be lost and alone",
        ],
    )
    s.about(
        "a lost [f.kind]",
        "a [h.kind] and a lost [f.kind]",
        "a [f.kind] who is lost",
        "a [h.kind] who helps a [f.kind]",
        "finding the way home",
    )
    s.title = s.say("the lost [f.kind]")
    s.fact(["Who was lost?"], ["a [f.kind] was lost.", "it was [f.full]."])
    s.fact(
        ["Did [f.they] get home?", "Did the [f.kind] find [f.their] mother?"],
        ["yes, [h] took [f.them] home.", "yes! [f.their] mother was so happy."],
    )


# Friends ---------------------------------------------------------------------------------------------------------


def quarrel(s):
    s.settle()
    s.hero()
    s.other("f")
    s.treasure()
    together = [
        "[h] and [f] were best friends. [h] was a [h.kind] and [f] was a [f.kind].",
        "[h.full] and [f.full] were {best|good|old} friends.",
        "once upon a time there were two friends, [h.full] and [f.full].",
        "once there were two friends, [h.intro] and [f.intro].",
        "[h] and [f] lived side by side [home.at]. [h] was a [h.kind] and [f] was a [f.kind].",
    ]
    if s.bound["h"].name and s.bound["f"].name and s.chance(0.7):
        opening(s)
        s.paragraph(
            together,
            s.maybe(
                0.5,
                "they did everything together.",
                "they played together every day.",
                "where one was, the other was never far away.",
            ),
        )
    else:
        s.paragraph(
            *opening(s, 0.4, 0.2),
            [
                "[h.their] best friend was [f.intro].",
                "[h] and [f.intro] were the best of friends.",
                "[f.intro] lived next door, and they played together every day.",
            ],
        )
    s.paragraph(
        ["[#dayonly], they found a [thing] [place.at].", "[#dayonly], there was a [thing] lying [place.at]."],
        '"It is mine!" said [h]. "I saw it first." "No, it is mine!" said [f]. "I {picked it up|touched it first}."',
        [
            "they pulled and they pulled, until crack, the [thing.noun] [thing.broke].",
            (
                "they shouted so loudly that the birds stopped singing."
                if s.region != "sea"
                else "they shouted so loudly that all the others stopped and stared."
            ),
            "[h] turned left and [f] turned right, and they did not say goodbye.",
        ],
    )
    broken = (
        "[thing.broke]" in " ".join(s.paragraphs) or s.bound["thing"].attributes["broke"] in s.paragraphs[-1]
    )
    s.paragraph(
        [
            "that {evening|night}, [h] sat [home.at], all alone.",
            "the next day was very long and quiet.",
            "[h] tried to play alone, but it was no fun.",
        ],
        [
            "[h.they] missed [f] {very much|more than [h.they] wanted to say}.",
            "without [f], nothing was {fun|as nice as before}.",
        ],
        s.maybe(
            0.5,
            '"What is a [thing.noun] without a friend?" [h.they] thought.',
            "far away, [f] was thinking the very same thing.",
        ),
    )
    s.paragraph(
        [
            "in the morning, [h] [h.went] to find [f].",
            "at last [h] got up and [h.went] to [place2]. there was [f], on the way to [h].",
        ],
        [
            '"I am sorry," said [h]. "I am sorry too," said [f].',
            'they both said it at the same time. "I am sorry!" and then they laughed.',
        ],
        (
            "they mended the [thing.noun] together, and it was almost as good as new."
            if broken
            else [
                '"Let us share the [thing.noun]," said [f]. "One day you and one day me."',
                '"You can have it," said [h]. "No, you," said [f]. so they decided that it belonged to both of them.',
            ]
        ),
    )
    ending(
        s,
        [
            "a friend is worth more than a [thing.noun]",
            "saying sorry is not so hard",
            "it is better to share than to fight",
        ],
        True,
    )
    s.about(
        "two friends who quarrel",
        "a [h.kind] and a [f.kind]",
        "a [h.kind] and a [f.kind] who share a [thing.noun]",
        "saying sorry",
        "sharing",
        "two friends and a [thing.noun]",
        "friendship",
    )
    s.title = (
        s.say("[h] and [f]")
        if s.bound["h"].name and s.bound["f"].name
        else s.say("the [h.kind] and the [f.kind]")
    )
    s.fact(
        ["Why did they quarrel?", "What did they fight about?"],
        ["they both wanted the [thing].", "they quarrelled about a [thing]."],
    )
    s.fact(
        ["Did they make up?", "Are they friends again?"],
        ["yes, they said sorry and shared the [thing.noun].", "yes. they are friends again."],
    )


def newcomer(s):
    s.settle()
    s.hero()
    s.other("f", named=True)
    s.paragraph(*opening(s))
    odd = s.pick(
        [
            (
                "was so shy that [f.they] never said a word",
                "[h] sat down next to [f.them] and did not say anything either. after a while, [f] smiled.",
            ),
            (
                "spoke in a strange way that nobody understood",
                "so [h] drew a picture {in the sand|in the mud|on the ground}, and [f] drew one too. soon they understood each other very well.",
            ),
            (
                "looked so different from everyone else",
                '"I like how you look," said [h]. "You look like nobody else."',
            ),
            (
                "was so big that everyone was afraid",
                '"Hello," said [h] bravely. "Hello," said [f] in a very soft voice. "I thought nobody would ever talk to me."',
            ),
            (
                "never came out to play",
                "[h] knocked three times and left a bowl of [food] at the door. the next day the bowl was empty, and in it was a flower.",
            ),
            (
                "was always alone",
                '"Do you want to play with me?" asked [h]. [f] nodded so hard that [f.their] whole body shook.',
            ),
        ]
    )
    s.paragraph(
        [
            "[#dayonly], somebody new came to live [place.at]. it was [f.intro].",
            "[#dayonly], [f.intro] came to live [place.at].",
        ],
        f"[f] {odd[0]}.",
        [
            '"Stay away from that one," said the others.',
            "the others whispered and stayed away.",
            "nobody said hello.",
            "everyone looked, but nobody went near.",
        ],
    )
    s.paragraph(
        [
            "but [h] was curious.",
            "but [h] remembered how it felt to be alone.",
            "only [h] went to say hello.",
        ],
        odd[1],
        s.maybe(0.4, "from that moment on, they were friends."),
    )
    s.paragraph(
        [
            (
                "then {a big storm|a hard wind|a terrible rain} came, and a tree fell across [place2]. nobody could get out. but [f] knew what to do. [f.they] showed them a secret way."
                if s.region != "sea"
                else "then a strong current came and trapped the little ones [place2.at]. [f] knew what to do. [f.they] showed them a secret way out."
            ),
            "soon it turned out that [f] knew the best games of all, and everyone wanted to play.",
            "[f] could tell wonderful stories about far away lands, and in the evening everyone came to listen.",
            "[f] invited everyone to supper. there was [food], and it was so good that they asked for more.",
        ],
        [
            '"We are sorry that we were not nice to you," said the others. "That is all right," said [f].',
            "and the others were ashamed, and then they were glad.",
            "now everybody was glad that [f] had come.",
        ],
    )
    ending(
        s,
        [
            "you should say hello before you are afraid",
            "a stranger is a friend you do not know yet",
            "it is good to be different",
        ],
    )
    s.about(
        "a new neighbour",
        "a new friend",
        "a shy [f.kind]",
        "a [h.kind] who makes a new friend",
        "being different",
        "a [f.kind] who is new",
        "a [f.kind] who has no friends",
    )
    s.title = s.say("the new neighbour")
    s.fact(
        ["Who was the new one?", "Who came to live there?"],
        ["it was [f.full].", "[f.full] came to live [place.at]."],
    )
    s.fact(["Why was nobody nice to [f]?"], [f"because [f.they] {odd[0]}."])


def kindness_returned(s):
    s.settle()
    s.hero(without=("tiny",))
    s.other(
        "f",
        kinds=[k for k in s.kinds_here() if "tiny" in KINDS[k][3].split() and k != s.bound["h"].kind]
        or (["ant", "mouse", "bee", "sparrow"] if s.region != "sea" else ["fish", "starfish"]),
    )
    s.paragraph(*opening(s))
    trouble = s.pick(
        [
            "had fallen into the water" if s.region != "sea" else "was caught under a stone",
            "was stuck under a {branch|stone}",
            (
                "was caught in a {net|spider's web|thorn bush}"
                if s.region != "sea"
                else "was caught in an old net"
            ),
            "was too tired to go on",
        ]
    )
    s.paragraph(
        f"[#dayonly], [h] saw [f.intro] [place.at]. [f] {trouble}.",
        ['"Please help me!" cried [f] in a tiny voice.', '"Help!" squeaked [f].', "[f] could hardly speak."],
        [
            "[h] {was in a hurry, but [h.they] stopped|did not think twice} and helped [f] out.",
            "very gently, [h] set [f] free.",
            "[h] lifted [f] up and carried [f.them] to a safe place.",
        ],
        [
            '"One day I will help you too," said [f]. [h] {laughed kindly|smiled}. how could somebody so small ever help?',
            '"I will never forget this," said [f].',
        ],
    )
    danger, rescue = (
        s.pick(
            [
                (
                    "[h] fell into a deep hole [place2.at] and could not get out",
                    "[f] ran and called everyone, and together they let down a long {rope|vine}",
                ),
                (
                    "[h] lost the way in a thick fog",
                    '[f] sat on [h.their] shoulder and said, "Left. Now right. Now straight on." [f.they] knew every stone',
                ),
                ("[h] was caught in a big net", "[f] bit through the net, one thread after the other"),
                (
                    "[h] had a thorn in [h.their] foot and could not walk",
                    "[f] was so small that [f.they] could grip the thorn and pull it out",
                ),
                (
                    "[h.their] house was about to be washed away by the rain",
                    "[f] came with a hundred friends, and they built a little wall",
                ),
            ]
        )
        if s.region != "sea"
        else s.pick(
            [
                ("[h] was caught in a big net", "[f] bit through the net, one thread after the other"),
                ("[h] lost the way in the dark", "[f] knew every stone and led [h.them] home"),
            ]
        )
    )
    s.paragraph(
        f"{{a week later|not long after|some days later|that very winter}}, {danger}.",
        [
            '"Who will help me now?" cried [h].',
            "[h] called and called, but nobody came.",
            "it was getting dark, and [h] was afraid.",
        ],
        f'then [h.they] heard a tiny voice. "I am here!" It was [f]. {rescue}.',
    )
    s.paragraph(
        "[#thanks]",
        [
            '"You helped me once," said [f], "and now I have helped you."',
            '"You see?" said [f]. "Small ones can help too."',
            '"I told you I would not forget," said [f].',
        ],
    )
    ending(s, ["no one is too small to help", "a good deed comes back to you", "kindness is never wasted"])
    s.about(
        "a [h.kind] who helps a [f.kind]",
        "a [h.kind] and a [f.kind]",
        "kindness",
        "a small [f.kind] who helps a [h.kind]",
        "helping others",
        "a [f.kind] and a [h.kind]",
    )
    s.title = s.say("the [h.kind] and the [f.kind]")
    s.fact(["How did [f] help [h]?"], [f"{danger}, and [f] came to help.", "[f] saved [h] in the end."])


# Fear, night and weather -------------------------------------------------------------------------------------------

FEARS = [
    (
        "the dark",
        "the dark",
        [
            "when the light went out, [h] saw monsters in every corner",
            "at night, [h] hid under the blanket and did not dare to look out",
        ],
        [
            '"Let us look at the dark together," said [f]. they sat still. after a while, they heard {crickets|the soft wind|an owl far away}, and they saw a thousand stars.',
            '"The dark is only the day with its eyes closed," said [f]. they went out, and in the dark the moon was brighter than ever.',
        ],
    ),
    (
        "thunder",
        "thunder",
        [
            "every time it thundered, [h] hid under the bed",
            "boom! went the sky, and [h] shook from head to toe",
        ],
        [
            '"It is only the clouds clapping," said [f]. "Let us clap too!" and each time it thundered they clapped and laughed.',
            '"Count with me," said [f]. "One, two, three, four." boom! the thunder was further away each time.',
        ],
    ),
    (
        "deep water",
        "water",
        ["when the others jumped in, [h] stood on the bank and shivered", "[h] did not even like puddles"],
        [
            '"Put in just one toe," said [f]. the next day it was two toes, and then one foot, and by the end of the summer [h] was splashing with everyone.',
            "[f] held [h.their] [h.hand], and they went in step by step. the water was warm and soft.",
        ],
    ),
    (
        "high places",
        "high places",
        [
            "[h] could not even stand on a chair",
            "when the others climbed, [h] stayed on the ground and looked at [h.their] feet",
        ],
        [
            '"Look at me and not at the ground," said [f]. one step, and another step, and then they were at the top, and the view was beautiful.',
            "they began with a small stone, then a bigger one, then a little hill. at the end of the week, [h] stood on top of [place2].",
        ],
    ),
    (
        "the big black dog",
        "a dog",
        ["every day [h] took the long way round", "when it barked, [h] ran as fast as [h.they] could"],
        [
            '"Have you ever looked at his tail?" asked [f]. [h] looked. the tail was wagging. the dog only wanted to play.',
            "[f] went up to the dog and said hello, and the dog licked [f.their] nose. then [h] tried it too.",
        ],
    ),
    (
        "the new school",
        "school",
        [
            "[h] had a lump in [h.their] throat and butterflies in [h.their] belly",
            "[h] hid in the cupboard and did not want to come out",
        ],
        [
            '"It is my first day too," said [f]. "Shall we be afraid together?" And hand in hand they went in.',
            '"I will sit next to you," said [f]. and when the bell rang, [h] did not even want to go home.',
        ],
    ),
    (
        "the wind",
        "the wind",
        [
            "when the wind howled, [h] pulled a pillow over [h.their] ears",
            "whoo, went the wind, and [h] thought it was a ghost",
        ],
        [
            '"The wind is only singing," said [f]. "Listen, it does not know the words." So they sang along with it.',
            '[f] gave [h] a kite. "Now show the wind how to play," said [f]. and the wind played all day long.',
        ],
    ),
]


def fear(s):
    s.settle(without=("sea",))
    what, short, shows, cures = s.pick(FEARS)
    s.hero(without=("swims",) if short == "water" else ("flies",) if short == "high places" else ())
    s.other("f", kinds=[k for k in s.kinds_here() + WISE_KINDS[:7] if k != "dog" or short != "a dog"])
    s.bound["fear"] = what
    s.paragraph(
        *opening(s, 0.3),
        [
            "there was only one thing that [h] did not like: [fear].",
            "but [h] had a secret. [h.they] was afraid of [fear].",
            "[h] was afraid of [fear].",
            '"I am not afraid of anything," [h] always said. but that was not true. [h.they] was afraid of [fear].',
        ],
        s.pick(shows) + ".",
    )
    s.paragraph(
        [
            "[#oneday], [f.intro] {found [h] like that|saw it|came by}.",
            "then [f.intro] came to stay for the night.",
            "[h.their] friend was [f.intro], who noticed everything.",
        ],
        [
            '"What is it?" asked [f]. "I am afraid," whispered [h]. "Please don\'t laugh."',
            '"Are you afraid of [fear]?" asked [f]. [h] nodded.',
            "[h] told [f] about it in a very small voice.",
        ],
        [
            "[f] did not laugh.",
            '"Everybody is afraid of something," said [f]. "I am afraid of {spiders|frogs|big hats|getting lost|loud noises}."',
            '"That is nothing to be ashamed of," said [f].',
        ],
    )
    s.paragraph(
        s.pick(cures),
        [
            '"Oh," said [h], "is that all?"',
            "slowly, the fear grew smaller and smaller, until it was no bigger than a pea.",
            "[h] took a deep breath, and [h.they] was not so afraid any more.",
        ],
        s.maybe(0.4, "[#thanks] [#welcome]"),
    )
    ending(
        s,
        [
            "things are less scary with a friend",
            "it helps to talk about what you fear",
            "fear grows small when you look at it",
        ],
    )
    s.about(
        "a [h.kind] who is afraid of [fear]",
        "a [h.kind] who was afraid of [fear]",
        "being afraid",
        f"being afraid of {what}",
        "a brave [h.kind]",
        "courage",
    )
    s.title = s.say("the [h.kind] who was afraid of [fear]")
    s.fact(["What was [h] afraid of?", "What was [h.they] afraid of?"], ["[h.they] was afraid of [fear]."])
    friend_fact(s)


def strange_sound(s):
    s.settle(without=("sea",))
    s.hero()
    s.other("f")
    sound, source, fix = s.pick(
        [
            (
                "tap, tap, tap",
                "a {beetle|woodpecker|snail} building a tiny house",
                "so they brought some leaves for the roof",
            ),
            (
                "whoo, whoo",
                "the wind blowing through an old bottle",
                "so they blew on it too, and made a song",
            ),
            (
                "squeak, squeak",
                "a mouse with a rusty wheel cart",
                "so they oiled the wheel with a drop of butter",
            ),
            (
                "drip, drop, drip",
                "a hole in the roof and the rain dripping into a pot",
                "so they mended the roof together",
            ),
            (
                "scratch, scratch",
                "a kitten that wanted to come in from the cold",
                "so they made a warm bed for it by the fire",
            ),
            ("hic, hic, hic", "a frog who had the hiccups", 'so they said "boo!", and the hiccups were gone'),
            (
                "rustle, rustle",
                "a hedgehog looking for a place to sleep",
                "so they piled up leaves for a bed",
            ),
            ("boo hoo, boo hoo", "a tiny ghost who was afraid of the dark", "so they gave it a lantern"),
            (
                "rumble, rumble",
                "a very hungry bear cub with a rumbling belly",
                "so they gave it a big bowl of [food]",
            ),
            ("ding, ding", "a goat with a bell that was stuck in a bush", "so they pulled it out"),
            (
                "snore, snore",
                "a dragon no bigger than a cat, fast asleep",
                "so they covered it with a blanket",
            ),
            (
                "peep, peep",
                "an egg that was just about to hatch",
                "so they sat and waited until a little chick looked out",
            ),
        ]
    )
    s.bound["noise"] = sound
    s.paragraph(*opening(s), s.maybe(0.4, "[h] and [f.intro] were {neighbours|good friends}."))
    s.paragraph(
        [
            "one {night|dark night|stormy night|cold night|evening}, [h] heard a strange sound: [noise].",
            "[h] was nearly asleep when there was a sound. [noise], it went.",
            "one night, something woke [h] up. [noise]! it came from [place].",
        ],
        [
            '"Who is there?" asked [h]. nobody answered. [noise], it went again.',
            '[h] pulled the blanket up to [h.their] nose. "Maybe it is a monster," [h.they] thought.',
            "[h.their] heart beat fast.",
        ],
        (
            "[h.they] ran to wake up [f]."
            if "[f" in s.paragraphs[-1] or s.bound["f"].attributes["full"] in s.paragraphs[-1]
            else "[h.they] ran to wake up [h.their] friend, [f.intro]."
        ),
        [
            '"I heard it too," whispered [f].',
            '"Monsters do not go [noise]," said [f]. "Let us go and look."',
            '"I will come with you," said [f].',
        ],
    )
    s.paragraph(
        [
            "they took a lantern and tiptoed to [place].",
            "step by step, they crept closer to [place].",
            "hand in hand, they went out into the night.",
        ],
        "[noise], it went, louder and louder.",
        [
            "they looked {behind|around} it, and what did they see?",
            '"One, two, three!" said [f], and they looked.',
        ],
        f"it was {source}!",
        [
            "they laughed until their bellies hurt.",
            '"Is that all?" said [h].',
            '"You gave us such a fright!" said [f].',
            '"Oh, you poor thing," said [h].',
        ],
        f"{fix}.",
    )
    s.paragraph(
        [
            "after that, there was no more [noise], and everyone slept well.",
            "in the morning, they told everyone about it.",
            "and from then on, they had one more friend.",
        ],
        s.pick(END_LINES),
    )
    s.about(
        "a strange sound",
        "a strange noise in the night",
        "a mystery",
        "a [h.kind] who hears a strange noise",
        "a scary night",
        "a [h.kind] and a [f.kind]",
    )
    s.title = s.say("the strange sound")
    s.fact(["What was the sound?", "What made the noise?", "What was it?"], [f"it was {source}."])


def storm(s):
    s.settle(without=("sea", "desert"))
    s.hero()
    s.other("f")
    s.other("x")
    what, damage, work = s.pick(
        [
            (
                "the bridge",
                "the bridge was gone",
                "they carried wood and stones, and tied everything with strong rope",
            ),
            (
                "the roof",
                "there was a big hole in the roof of [h.their] home",
                "one held the ladder, one brought the straw, and one tied it down",
            ),
            (
                "the big tree",
                "the big tree lay right across the path",
                "they pushed and pulled and sawed, until the way was free",
            ),
            (
                "the nest",
                "a nest full of eggs had fallen from a tree",
                "they made a ladder of backs, one on top of the other, and put the nest back",
            ),
            (
                "the little dam",
                "water was running in everywhere",
                "they made a long line and passed stones from one to the next",
            ),
            (
                "the garden",
                "all the plants lay flat on the ground",
                "they tied every stem to a stick and covered the roots with earth",
            ),
        ]
    )
    s.paragraph(*opening(s))
    s.paragraph(
        [
            '[#dayonly], the sky turned dark. "A storm is coming!" called [f.intro].',
            "[#dayonly], big black clouds came over the hill.",
            '"I can smell a storm," said [f.intro] [#dayonly].',
        ],
        [
            "the wind howled, and the rain fell in buckets.",
            "there was lightning and thunder, and the wind shook everything.",
            "it rained and rained, all through the night.",
        ],
        ["[h] hid [home.at] and waited.", "everyone stayed inside and held on tight."],
    )
    s.paragraph(
        ["when the morning came, the storm was over.", "at last, the sun came out again."],
        f"but {damage}.",
        ['"What shall we do?" asked [h].', '"Oh dear," said [f].', "[h] wanted to cry."],
        [
            '"I can\'t do it alone," said [h], "but maybe we can do it together."',
            '"If everyone helps, it is not so hard," said [f].',
        ],
        "[x.intro] came too.",
    )
    s.paragraph(
        f"{work}.",
        [
            '"Heave ho!" they sang.',
            "even the smallest one helped.",
            "they worked all day, and nobody complained.",
        ],
        [
            "when the evening came, {it was done|everything was as good as new}.",
            f"and soon {what} was better than before.",
        ],
        s.maybe(0.5, "then they sat down, tired and happy, and ate [food]."),
    )
    ending(
        s,
        [
            "many [h.hands] make light work",
            "after every storm the sun comes out",
            "together you can mend almost anything",
        ],
    )
    s.about(
        "a storm",
        "a big storm",
        "a [h.kind] in a storm",
        "working together",
        "a rainy day",
        "a [h.kind] and a [f.kind] who work together",
        "friends who help each other",
    )
    s.title = "the big storm"
    s.fact(["What did the storm do?", "What was broken?"], [f"after the storm, {damage}."])
    s.fact(["Who helped?"], ["[f] and [x] helped [h]."])


def cannot_sleep(s):
    s.settle(without=("sea",))
    s.hero()
    s.other("f")
    s.paragraph(*opening(s, 0.4, 0.2))
    tries = s.some(
        [
            "[h.they] counted sheep, but the sheep wanted to play.",
            "[h.they] lay on the left side, and then on the right side, and then upside down.",
            "[h.they] drank a cup of warm milk, but then [h.their] belly gurgled.",
            "[h.they] closed [h.their] eyes very tight, but they popped open again.",
            "[h.they] sang a lullaby to [h.self], and forgot the words.",
            "[h.they] looked at the moon, and the moon looked back.",
            "[h.they] tried to think of nothing at all, but nothing was very big.",
            "[h.they] fluffed up the pillow and turned it over.",
        ],
        2,
        3,
    )
    s.paragraph(
        [
            "one night, [h] could not sleep.",
            "it was late, and everyone was asleep but [h].",
            '"I can\'t sleep," said [h].',
        ],
        *tries,
    )
    reason, cure = s.pick(
        [
            (
                "missed [h.their] {mother|grandmother|best friend}",
                '[f] sat down beside [h.them] and hummed a soft song. "I will stay until you are asleep," said [f].',
            ),
            (
                "was thinking about tomorrow",
                '"Tomorrow will come by itself," said [f]. "You do not have to carry it."',
            ),
            ("was a bit cold", "[f] brought a second blanket and tucked [h.them] in."),
            (
                "had not said good night to everyone",
                "so together they said good night to the moon, and to the trees, and to the wind, and to [place].",
            ),
            (
                "was sad about something that had happened that day",
                '"Tell me," said [f]. and when [h.they] had told it all, it was not so bad any more.',
            ),
            (
                "was not tired yet",
                '"Then let us watch the stars," said [f]. they lay on their backs and counted. one, two, three, four, five...',
            ),
        ]
    )
    s.paragraph(
        [
            'then [f.intro] came {in|by}. "Why are you still awake?" asked [f].',
            'there was a knock. it was [f.intro]. "I saw your light," said [f].',
        ],
        s.pick(
            [
                f'"I do not know," said [h]. but the truth was that [h.they] {reason}.',
                f"[h] {reason}, and that was why.",
            ]
        ),
        cure,
    )
    s.paragraph(
        ["[h] yawned a very big yawn.", "slowly, [h.their] eyes closed.", "[h] felt warm and safe."],
        [
            "and before [f] could say good night, [h] was asleep.",
            "and soon there was only the sound of soft breathing.",
            "the moon shone in at the window, and [h] slept until morning.",
        ],
        s.maybe(0.4, "good night, [h].", "sweet dreams."),
    )
    s.about(
        "a [h.kind] who can't sleep",
        "a [h.kind] who could not sleep",
        "bedtime",
        "sleeping",
        "a sleepy [h.kind]",
        "the night",
        "going to bed",
    )
    s.title = s.say("the [h.kind] who could not sleep")
    s.fact(["Why could [h] not sleep?"], [f"[h.they] {reason}."])
    friend_fact(s, "helped [h.them] to fall asleep")


# Deeds -----------------------------------------------------------------------------------------------------------


def gift(s):
    s.settle()
    s.hero()
    s.other("f", named=True)
    s.treasure()
    why = s.pick(
        [
            "it was [f]'s birthday",
            "[f] was ill in bed",
            "[f] was moving away",
            "[f] had been so kind to [h.them]",
            "[f] felt a little sad",
        ]
    )
    s.paragraph(
        *opening(s), ["[h.their] best friend was [f.intro].", "[h] had a good friend. it was [f.intro]."]
    )
    s.paragraph(
        f"[#dayonly], {why}.",
        [
            '"I want to give [f.them] something {nice|special}," said [h].',
            '"I must find a present," thought [h].',
            "[h] wanted to give [f.them] the best present in the world.",
        ],
        (
            [
                "so [h.they] looked [place.at], but found only {stones|an old boot|sand|mud}.",
                "[h.they] made a cake, but it fell apart.",
                "[h.they] picked a flower, but it hung its head.",
                "[h.they] wanted to buy something, but [h.they] had no money at all.",
                "[h.they] made a picture, but the rain washed it away.",
            ]
            if s.region != "sea"
            else ["so [h.they] looked [place.at], but found only stones."]
        ),
    )
    choice = s.pick(["give", "make", "time"])
    if choice == "give":
        s.paragraph(
            "then [h] thought of [h.their] own [thing]. [h.they] loved it, and [thing.use].",
            [
                "it was hard to give it away, but [h.they] wrapped it up.",
                "[h.they] held it for a long time. then [h.they] made up [h.their] mind.",
            ],
            '"This is for you," said [h].',
            [
                '[f] opened it, and [f.their] eyes grew big. "Your [thing]!" said [f]. "But you love it so much." "I love you more," said [h].',
                '"For me?" whispered [f]. it was the most beautiful thing [f.they] had ever been given.',
            ],
        )
        result = "a [thing]"
    elif choice == "make":
        s.paragraph(
            "then [h] had an idea. [h.they] {sat down [place2.at] and|worked all night and} made a [thing], all by [h.self].",
            ["it was a little crooked, but it was made with love.", "one side was bigger than the other."],
            [
                '"It is not perfect," said [h]. "It is perfect to me," said [f].',
                '"You made this for me?" asked [f]. "It is the best present I ever got."',
            ],
        )
        result = "a [thing] that [h.they] had made"
    else:
        s.paragraph(
            'in the end, [h] came with empty [h.hands]. "I have no present," [h.they] said, "but I can {tell you a story|sing you a song|stay with you all day}."',
            [
                '[f] smiled. "That is just what I wished for."',
                '"You are here," said [f]. "That is the best present of all."',
            ],
            ["so they spent the whole day together.", "they talked and laughed until it was dark."],
        )
        result = "a whole day together"
    ending(
        s,
        [
            "the best gifts come from the heart",
            "a present does not have to be big",
            "giving is as nice as getting",
        ],
        choice != "time",
    )
    s.about(
        "a present",
        "a gift",
        "a birthday",
        "a [h.kind] who looks for a present",
        "a [h.kind] and a [f.kind]",
        "a birthday present for a [f.kind]",
        "giving",
    )
    s.title = s.say("a present for [f]")
    s.fact(
        ["What was the present?", "What did [h] give to [f]?"],
        [f"it was {result}.", f"[h.they] gave [f] {result}."],
    )
    s.fact(["Why did [h] want to give a present?"], [f"because {why}."])


def confession(s):
    s.settle()
    s.hero()
    s.other("f")
    s.treasure()
    s.paragraph(
        *opening(s, 0.5, 0.3),
        [
            (
                "[h.their] friend [f.intro] had a [thing] and [f.they] was very proud of it."
                if s.bound["f"].name is None
                else "[h.their] friend [f] had a [thing] and was very proud of it."
            )
        ],
    )
    s.paragraph(
        [
            "[#dayonly], [h] {played with|borrowed|picked up} the [thing.noun] without asking.",
            "[#dayonly], [f] was out, and [h] wanted to touch the [thing.noun]. just for a moment.",
        ],
        [
            "but [h] slipped, and the [thing.noun] fell. it [thing.broke].",
            "crash! the [thing.noun] fell to the ground. it [thing.broke].",
            "oh no! the [thing.noun] [thing.broke].",
        ],
        ["[h] looked around. nobody had seen it.", "[h] hid it [place.at] and ran away."],
    )
    s.paragraph(
        [
            'when [f] came home, [f.they] looked everywhere. "Where is my [thing]?" [f.they] asked.',
            '"Somebody has broken my [thing.noun]," said [f] sadly. "Who could it be?"',
        ],
        [
            '"I do not know," said [h], and looked at [h.their] feet.',
            "[h] did not say a word. [h.their] belly felt full of stones.",
        ],
        [
            "that night, [h] could not sleep.",
            "all day long, [h.they] could not eat, not even [food].",
            "the lie felt heavier and heavier.",
        ],
    )
    s.paragraph(
        ["the next morning, [h] [h.went] to [f].", "at last, [h] could not bear it any longer."],
        [
            '"It was me," [h.they] said. "I broke your [thing.noun], and I am so sorry."',
            '"I have to tell you something," said [h] with a shaking voice. "I broke it."',
        ],
        [
            '[f] was quiet for a while. then [f.they] said, "Thank you for telling me the truth."',
            '[f] was sad about the [thing.noun], but glad about the truth. "It was brave of you to say it," [f.they] said.',
        ],
        [
            "together they mended the [thing.noun].",
            "they worked all afternoon, and the [thing.noun] was whole again, with only a tiny scar.",
        ],
    )
    ending(
        s,
        [
            "the truth makes your heart light",
            "it is brave to say sorry",
            "you should always ask before you take something",
        ],
        True,
    )
    s.about(
        "telling the truth",
        "a lie",
        "a broken [thing.noun]",
        "a [h.kind] who tells a lie",
        "a [h.kind] who broke a [thing.noun]",
        "saying sorry",
        "honesty",
    )
    s.title = s.say("the broken [thing.noun]")
    s.fact(
        ["What did [h] break?", "What was broken?"], ["[h.they] broke [f]'s [thing].", "it was the [thing]."]
    )
    s.fact(["Was [f] angry?"], ["no. [f.they] was glad that [h] told the truth."])


def delivery(s):
    s.settle(without=("sea",))
    s.hero(without=("slow",))
    s.other("f")
    s.other("x", named=False)
    who = s.pick(["grandmother", "grandfather", "old aunt", "sick cousin", "uncle"])
    what = s.pick(
        [
            "a pot of [food]",
            "a basket of [food]",
            "a letter",
            "a warm blanket",
            "a jar of honey",
            "a bunch of flowers",
        ]
    )
    s.bound.update(who=who, load=s.say(what))
    s.paragraph(
        *opening(s),
        [
            f'[#dayonly], [h.their] mother said, "Please take [load] to your [who]. Will you be careful?"',
            '[#dayonly], [h] wanted to bring [load] to [h.their] [who], who lived far away, behind [place2]. "Be careful," said [h.their] mother.',
        ],
        '"I will," said [h], and off [h.they] [h.went].',
    )
    steps = s.some(
        [
            (
                'soon [h.they] came to [place]. there [h.they] met [x.intro], who was hungry. "May I have a little?" asked [x]. [h] shared {a bite|some of [h.their] own lunch}.'
                if "letter" not in s.bound["load"]
                else "soon [h.they] came to [place]. there [h.they] met [x.intro], who was lost. [h] showed [x.them] the way."
            ),
            "then it began to rain. [h] put [h.their] own coat over [load] to keep it dry.",
            "the bridge was broken, so [h.they] had to go the long way round.",
            "a gust of wind nearly blew everything away, but [h] held on tight.",
            "the way grew steep, and [h.their] legs grew tired, but [h.they] thought of [h.their] [who] and went on.",
            "at a fork in the road, [h] did not know which way to go. [h.they] chose the wrong one, and had to turn around.",
        ],
        2,
        3,
    )
    s.paragraph(*steps)
    s.paragraph(
        [
            'it was already getting dark when [h] heard steps. it was [f.intro]. "Are you lost?" asked [f]. "I do not know the way any more," said [h].',
            'then [h.they] sat down on a stone and sighed. "It is too far," said [h]. [f.intro] heard it.',
        ],
        [
            '"I know your [who] well," said [f]. "Come, I will take you there."',
            '"Let me carry it for a while," said [f]. "It is not far now."',
        ],
        "together they went on, and soon they saw a light in a window.",
    )
    s.paragraph(
        [
            '"My dear child!" cried the [who]. "Have you come all this way for me?"',
            "the door opened, and there stood [h.their] [who], smiling.",
        ],
        '"This is for you," said [h], and gave away [load].',
        [
            "they all sat down by the fire, and [f] was invited too.",
            "they had hot tea and told stories until late.",
        ],
    )
    ending(
        s,
        [
            "a long way is shorter with a friend",
            "it is good to keep a promise",
            "a kind deed warms two hearts",
        ],
    )
    s.about(
        f"a [h.kind] who visits [h.their] {who}",
        "a long journey",
        "a journey",
        f"a [h.kind] and [h.their] {who}",
        "a [h.kind] who goes on a journey",
        "keeping a promise",
        "a visit to grandmother",
    )
    s.title = "the long way"
    s.fact(["What did [h] carry?", "What did [h] bring?"], ["[h.they] carried [load]."])
    s.fact(["Where did [h] go?"], ["[h.they] went to see [h.their] [who]."])


def soup(s):
    s.settle(without=("sea",))
    s.hero()
    s.other("f")
    s.other("x")
    s.other("y")
    dish = s.pick(
        ["a big pot of soup", "a giant pie", "a birthday cake", "a mountain of pancakes", "a huge salad"]
    )
    parts = {
        "a big pot of soup": [
            "a carrot",
            "an onion",
            "a potato",
            "a pinch of salt",
            "some beans",
            "a leaf of mint",
        ],
        "a giant pie": [
            "some apples",
            "a cup of flour",
            "a spoon of honey",
            "a bit of butter",
            "some berries",
        ],
        "a birthday cake": [
            "some flour",
            "two eggs",
            "a cup of sugar",
            "a handful of cherries",
            "some butter",
        ],
        "a mountain of pancakes": [
            "some milk",
            "two eggs",
            "some flour",
            "a spoon of jam",
            "a pinch of salt",
        ],
        "a huge salad": ["some leaves", "a tomato", "a handful of nuts", "some seeds", "a sweet apple"],
    }[dish]
    first, second, third = s.rng.sample(parts, 3)
    s.bound.update(dish=dish, one=first, two=second, three=third)
    short = dish.split()[-1]
    s.bound["short"] = short
    were = "were" if short == "pancakes" else "was"
    s.paragraph(
        *opening(s),
        [
            "[#dayonly], [h] wanted to make [dish], but there was {nothing in the house|only a pot of water|an empty cupboard}.",
            "[#dayonly], [h] was hungry and wanted to make [dish]. but the shelf was empty.",
        ],
    )
    s.paragraph(
        'so [h.they] [h.went] to [f.intro]. "I am making [dish]," said [h]. "Do you have [one]?"',
        [
            '"I do," said [f], "if I may have a taste."',
            '"Of course," said [f]. "May I come along?"',
            '"Yes," said [f], "but I have only a little."',
        ],
        "next they asked [x.intro]. [x] gave them [two].",
        (
            "and [place2.at] they met [y.intro], who had [three]."
            if s.chance(0.8)
            else "and [y.intro] brought [three]."
        ),
    )
    s.paragraph(
        [
            "they washed and chopped and stirred, and soon it smelled wonderful.",
            "they put it all together and waited. it bubbled and steamed.",
            "everybody took a turn at stirring.",
        ],
        (
            '"It needs something more," said [h], and {tasted it|frowned}. "It needs {friends|a song|laughter}," said [f].'
            if s.chance(0.4)
            else ""
        ),
        f"at last the [short] {were} ready.",
        [
            f"there {were} enough for everyone, and even a bit left over.",
            "each of them had given only a little, but together it was a feast.",
            "they sat around the table and ate until they were full and round.",
        ],
    )
    ending(
        s,
        [
            "a little from everyone is a lot for all",
            "food tastes best with friends",
            "sharing makes a small meal big",
        ],
    )
    s.about(
        "cooking",
        f"{dish}",
        "a [h.kind] who makes [dish]",
        "a hungry [h.kind]",
        "sharing food",
        "a feast",
        "a [h.kind] who cooks",
    )
    s.title = s.say("[dish]")
    s.fact(["What did they make?", "What did they cook?"], ["they made [dish]."])
    s.fact(["What did [f] bring?", "What did [f] give?"], ["[f] gave [one]."])


def greedy(s):
    s.settle(without=("sea",))
    s.hero()
    s.other("f")
    s.other("x")
    s.paragraph(
        *opening(s, 0, 0.2),
        [
            "[h] loved [food]. [h.they] could never get enough.",
            "[h] never shared [h.their] [food] with anyone.",
        ],
    )
    s.paragraph(
        [
            "[#dayonly], [h] found a whole {basket|sack|pile} of [food] [place.at].",
            "[#dayonly], there was a big {bowl|basket} of [food] [place.at].",
        ],
        '"Mine, all mine!" said [h].',
        '[f.intro] came by. "May I have some?" asked [f]. "No," said [h], {with a full mouth|and turned away}.',
        s.maybe(0.7, 'then [x.intro] came. "Just a little bit?" "No, no, no!" said [h].'),
    )
    trouble = s.pick(
        [
            "[h] ate and ate until [h.their] belly was as round as a ball. then [h.they] tried to go home, but [h.they] was stuck in the {door|gate|hole}",
            "[h] ate it all, and soon [h.they] had a terrible belly ache",
            "[h] wanted to carry it all home at once. it was too heavy, and everything rolled down the hill and into the water",
        ]
    )
    s.paragraph(
        f"{trouble}.",
        [
            '"Help!" cried [h]. but then [h.they] remembered that [h.they] had not been very nice.',
            '"Who will help me now?" groaned [h]. "I was so mean to everyone."',
            "[h] began to cry.",
        ],
    )
    s.paragraph(
        [
            (
                "but [f] came anyway. and [x] came too."
                if s.bound["x"].kind in s.paragraphs[1]
                or (s.bound["x"].name and s.bound["x"].name in s.paragraphs[1])
                else "but [f] came anyway."
            ),
            "then [f] heard it and came running.",
        ],
        [
            '"You were not very kind," said [f], "but I will help you all the same."',
            '"Friends help each other," said [f].',
        ],
        [
            "[f] {pulled and pulled|made a cup of mint tea|gave [h.them] a hug}, and soon [h] felt much better.",
            "before long, all was well again.",
        ],
        [
            '"I am sorry," said [h]. "Next time I will share."',
            '[h] was ashamed. "Why are you so good to me?" [h.they] asked. "Because tomorrow you will be good to me," said [f].',
        ],
    )
    s.paragraph(
        [
            "the next day, [h] found some [food2]. and this time [h.they] called everyone to share it.",
            "and [h.they] did. the next time [h.they] had some [food], everybody got a piece.",
        ],
        s.pick(END_LINES),
    )
    s.about(
        "a greedy [h.kind]",
        "sharing",
        "a [h.kind] who does not want to share",
        "a [h.kind] who eats too much",
        "a [h.kind] who learns to share",
        "being greedy",
    )
    s.title = s.say("the greedy [h.kind]")
    s.fact(["What did [h] not want to share?", "What did [h] find?"], ["it was [food]."])
    s.fact(["What did [h] learn?"], ["[h] learned to share."])


def helper_bird(s):
    """Somebody finds a hurt creature, cares for it, and lets it go."""
    s.settle(without=("sea",))
    s.hero(without=("tiny",))
    s.other(
        "f",
        kinds=[
            "sparrow",
            "robin",
            "butterfly",
            "squirrel",
            "hedgehog",
            "owl",
            "seagull",
            "mouse",
            "rabbit",
            "bat",
        ],
    )
    hurt = s.pick(
        [
            "had hurt [f.their] " + ("wing" if "flies" in s.bound["f"].tags else "leg"),
            "was cold and wet",
            "had not eaten for days",
        ]
    )
    s.paragraph(*opening(s))
    s.paragraph(
        f"[#dayonly], after a {{storm|cold night|long rain}}, [h] found [f.intro] [place.at]. [f] {hurt}.",
        [
            '"Do not be afraid," said [h] softly.',
            '"You poor thing," said [h].',
            '[h] {knelt|bent} down. "I will take care of you," [h.they] said.',
        ],
        "[h.they] carried [f] home and made a bed out of {leaves|an old sock|soft grass|a basket}.",
    )
    s.paragraph(
        [
            "every day, [h] brought [f.them] water and [food].",
            "[h] sat beside the bed and {told stories|sang songs}.",
            'the first day, [f] did not move. the second day, [f.they] opened one eye. the third day, [f.they] said, "Good morning."',
        ],
        ["slowly, [f] grew strong again.", "day by day, [f] got better."],
        ["they became very good friends.", "and they laughed together every day."],
    )
    s.paragraph(
        [
            'then came the day when [f] was well again. "I must go home now," said [f].',
            "[#dayonly], [f] looked out of the window for a long time. [h] understood.",
        ],
        [
            '[h] was sad, but [h.they] opened the door. "Goodbye," [h.they] said. "Come and see me."',
            '"I will miss you," said [h], and [h.they] swallowed hard.',
        ],
        [
            "and every {spring|year|Sunday}, [f] came back and brought {a flower|a shiny stone|[f.their] children|a song}.",
            'but the very next morning there was a knock. it was [f], with [f.their] whole family. "We have moved in next door!" they said.',
        ],
    )
    ending(
        s,
        [
            "loving somebody also means letting go",
            "a little care can do a lot",
            "a true friend always comes back",
        ],
    )
    s.about(
        "a hurt [f.kind]",
        "a [h.kind] who takes care of a [f.kind]",
        "a [h.kind] who finds a [f.kind]",
        "taking care of somebody",
        "a [f.kind] who is hurt",
        "a [h.kind] and a [f.kind]",
    )
    s.title = s.say("the [h.kind] and the [f.kind]")
    s.fact(["What was wrong with [f]?"], [f"[f.they] {hurt}."])


# Old places and little things --------------------------------------------------------------------------------------

OLD_PLACES = [
    (
        "lighthouse",
        "stood on a cliff above the sea",
        "its lamp had not been lit for years",
        "lit the lamp",
        "the light swept over the dark water, round and round",
        "the little boats found their way home",
        "seaside",
    ),
    (
        "clock",
        "hung in the tower of the town",
        "its hands had stopped at half past three",
        "cleaned the wheels and wound it up",
        "tick, tock, said the clock, and then it rang twelve times",
        "everybody came to school on time again",
        "town",
    ),
    (
        "mill",
        "stood beside the river",
        "its wheel did not turn any more",
        "pulled the weeds out of the wheel",
        "the big wheel groaned, and then it turned, splash, splash, splash",
        "there was flour and fresh bread for everyone",
        "river",
    ),
    (
        "bridge",
        "crossed the stream",
        "half of its planks were missing",
        "put in new planks, one by one",
        "the first one who walked over it was a snail, and the bridge did not even creak",
        "friends from both sides could visit each other",
        "forest",
    ),
    (
        "boat",
        "lay upside down on the beach",
        "there was a hole in its side",
        "patched the hole and painted the boat blue",
        "the boat rocked on the waves as if it was dancing",
        "it sailed out every morning and came home every night",
        "seaside",
    ),
    (
        "piano",
        "stood in a dusty room",
        "nobody had played it for a hundred years",
        "wiped off the dust and pressed one key",
        "a soft note floated through the room, and then another",
        "there was music every evening",
        "town",
    ),
    (
        "house",
        "stood at the end of the lane",
        "its windows were dark and its door hung crooked",
        "swept the floors and lit a fire",
        "smoke rose from the chimney, and light shone from every window",
        "there was laughter in every room",
        "village",
    ),
    (
        "garden",
        "lay behind a high wall",
        "nothing grew there but thorns",
        "cut the thorns and planted seeds",
        "one spring morning, a hundred flowers opened at once",
        "everyone could come in and smell the roses",
        "village",
    ),
    (
        "bell",
        "hung in the church tower",
        "it had a crack and never rang",
        "mended the crack with silver",
        "ding, dong, it sang, clear as water",
        "it rang for every birthday",
        "village",
    ),
    (
        "carousel",
        "stood in the park under a cover",
        "its wooden horses had not moved for years",
        "oiled the wheels and painted the horses",
        "the music began, and round and round they went",
        "children came from all over to ride on it",
        "town",
    ),
    (
        "tree",
        "stood alone on the hill",
        "it had lost all its leaves, and the birds had gone away",
        "brought it water every day",
        "one morning there was a tiny green leaf",
        "the birds came back and built their nests",
        "meadow",
    ),
    (
        "train",
        "stood on rusty rails",
        "its wheels were stiff and its whistle was silent",
        "oiled the wheels and filled the boiler",
        "toot, toot, went the train, and slowly it began to roll",
        "it carried everyone to the sea and back",
        "town",
    ),
    (
        "library",
        "stood at the corner of the square",
        "nobody came to read any more",
        "opened the windows and read a story out loud",
        "one by one, people stopped to listen",
        "the shelves were full of books and the chairs were full of readers",
        "town",
    ),
    (
        "well",
        "stood in the middle of the square",
        "it had run dry",
        "dug deeper and deeper",
        "there was a gurgle, and then cool, clear water came up",
        "nobody was thirsty any more",
        "village",
    ),
    (
        "castle",
        "stood on top of the hill",
        "its halls were empty and cold",
        "invited everyone to a party",
        "music filled the great hall, and candles burned in every window",
        "the castle was full of friends",
        "kingdom",
    ),
    (
        "windmill",
        "stood on the round hill",
        "its sails were torn",
        "sewed new sails of white cloth",
        "the wind came, and the sails went round and round",
        "all the farmers brought their grain",
        "farm",
    ),
    (
        "fountain",
        "stood in the palace garden",
        "no water had run in it for years",
        "cleared away the moss and the leaves",
        "the water leaped up and sparkled in the sun",
        "birds came to bathe in it every day",
        "kingdom",
    ),
    (
        "barn",
        "stood at the edge of the farm",
        "its roof was full of holes",
        "mended the roof with fresh straw",
        "that night it rained, and not one drop came in",
        "everyone slept warm and dry",
        "farm",
    ),
    (
        "shop",
        "stood in a narrow street",
        "its shelves were dusty and nobody came in",
        "put a lamp in the window and baked ginger biscuits",
        "first one came, and then ten, and soon there was a long line",
        "the little bell on the door never stopped ringing",
        "town",
    ),
    (
        "tower",
        "stood deep in the forest",
        "ivy had grown over its only door",
        "cut a path to the door",
        "the door opened with a creak, and sunlight fell on a hundred painted walls",
        "everyone climbed up to watch the sunset",
        "forest",
    ),
]


# Any other old thing is told of in general words.
OLD_NOUNS = """car wagon radio chair lamp ship robot school theatre cinema door statue bicycle tractor cottage inn factory church museum hotel cabin hut
temple palace tent truck airplane balloon telescope organ sofa table stove oven cart carriage suitcase painting puppet rocket submarine station shed market
hospital zoo circus bakery farm gate wall ladder ferry canoe sailboat swing slide playground greenhouse attic cellar fence road village phone computer
camera television typewriter guitar trumpet mirror wardrobe rocking_chair""".split()
OLD_GENERAL = dict(
    stood=[
        "stood at the end of the road",
        "stood all alone",
        "was covered with dust",
        "stood behind the hill",
        "was hidden behind tall bushes",
    ],
    trouble=[
        "nobody needed it any more",
        "it was broken, and nobody knew how to mend it",
        "it had not been used for years",
        "everything about it was rusty and grey",
    ],
    deed=[
        "cleaned it and mended what was broken",
        "swept and scrubbed and painted",
        "took it apart and put it together again",
        "worked on it, piece by piece",
    ],
    success=[
        "it looked as good as new",
        "it shone in the sun like new",
        "it worked again, as if it had never been broken",
    ],
    result=[
        "everyone came to see it",
        "it was the pride of all",
        "somebody came to visit it every day",
        "it was used every single day",
    ],
)


def old_place(s):
    if s.chance(0.3):
        noun = s.pick(OLD_NOUNS).replace("_", " ")
        stood, trouble, deed, success, result = (
            s.pick(OLD_GENERAL[part]) for part in ("stood", "trouble", "deed", "success", "result")
        )
        region = s.pick(["village", "town", "farm", "meadow", "forest", "river"])
    else:
        noun, stood, trouble, deed, success, result, region = s.pick(OLD_PLACES)
    s.settle(region)
    s.hero()
    s.other("f")
    s.bound["old"] = noun
    first = s.pick(
        [
            f"the old [old] {stood}.",
            f"an old [old] {stood}.",
            f"there was once an old [old]. it {stood}.",
            f"once upon a time, an old [old] {stood}.",
            f"the old [old] was very lonely. it {stood}.",
            f"nobody ever went to the old [old] any more. it {stood}.",
        ]
    )
    s.paragraph(
        first,
        f"{trouble}.",
        [
            '"It is too old," people said. "It is good for nothing."',
            "everyone had forgotten about it.",
            "only the {spiders|mice|wind} lived there.",
            "long ago it had been full of life, but now it was silent.",
            "sometimes, at night, it seemed to sigh.",
        ],
    )
    s.paragraph(
        [
            "but [h.intro] did not forget it.",
            "[#dayonly], [h.intro] came by and stopped.",
            "[h.intro] lived nearby and looked at it every day.",
        ],
        [
            '"You are not too old," said [h], and {patted|touched} the [old]. "You only need a little help."',
            '"Poor old [old]," said [h]. "I will help you."',
            '"I wonder what it was like when it was new," said [h].',
        ],
        [
            "all alone, it was hard work.",
            'the others shook their heads. "That will never work," they said.',
            "[h] worked every day, but there was so much to do.",
        ],
        (
            'then [f.intro] came and asked, "May I help?"'
            if s.chance(0.6)
            else "so [h.they] asked [h.their] friend, [f.intro], to help."
        ),
    )
    s.paragraph(
        f"together they {deed}.",
        s.maybe(0.4, "it took a whole {week|month|day}.", "nobody knew if it would work."),
        f"and then it happened. {success}." if s.chance(0.5) else f"{success}.",
        [
            '"Look!" cried [h].',
            '"We did it!" said [f].',
            "everyone came running to see it.",
            "[h] clapped [h.their] [h.hands] for joy.",
        ],
    )
    s.paragraph(
        f"{{after that|from then on|from that day on}}, {result}.",
        [
            "and the old [old] was never lonely again.",
            "and if an old [old] can be happy, then this one was.",
            '"It was not too old after all," people said.',
            "and every evening, [h] came to say good night to it.",
        ],
        s.maybe(0.4, *END_LINES),
    )
    s.about(
        "an old [old]",
        "the old [old]",
        "an old [old] and a [h.kind]",
        "a [old]",
        "a [h.kind] who finds an old [old]",
        "a lonely [old]",
    )
    s.title = s.say("the old [old]")
    s.fact(["What was wrong with the [old]?", "Why was the [old] sad?"], [f"{trouble}."])
    s.fact(
        ["Who helped the [old]?", "Who mended the [old]?"],
        ["[h] and [f] helped it.", "it was [h], together with [f]."],
    )


LITTLE_THINGS = [
    (
        "cloud",
        "floated high above the hills",
        "wanted to be useful",
        "the other clouds were big and dark, and they laughed at it",
        "saw a field where all the plants were thirsty",
        "cried with joy, and soft rain fell on the field",
        "the flowers lifted up their heads and said thank you",
    ),
    (
        "star",
        "shone at the very edge of the sky",
        "wanted somebody to notice it",
        "the other stars were so much brighter",
        "saw a little boat that had lost its way",
        "shone as bright as it could",
        "the boat followed its light all the way home",
    ),
    (
        "raindrop",
        "lived in a grey cloud",
        "was afraid to fall",
        "all the others had already jumped",
        "heard a tiny seed call for water",
        "closed its eyes and jumped",
        "a green leaf grew on the very spot where it had landed",
    ),
    (
        "leaf",
        "hung on the highest branch",
        "did not want to fall",
        "one by one, all the other leaves had gone",
        "saw a ladybird shivering in the cold",
        "let go and floated down, light as a feather",
        "the ladybird slept under it all winter long",
    ),
    (
        "snowflake",
        "danced down from the winter sky",
        "was looking for a place to stay",
        "the roof was too warm and the road was too busy",
        "saw a child who had never seen snow",
        "landed softly on the child's nose",
        "the child laughed, and the snowflake had never been so happy",
    ),
    (
        "candle",
        "stood on a dusty shelf",
        "wanted to shine",
        "there was a big lamp, and nobody needed a candle",
        "heard that the big lamp had gone out in the storm",
        "was lit, and it shone with all its heart",
        "the whole family sat around its light and told stories",
    ),
    (
        "teapot",
        "stood in the kitchen window",
        "had a crack and felt useless",
        "the new teapot was shiny and proud",
        "heard somebody say that a flower needed a home",
        "was filled with soft earth",
        "a red flower grew in it, and everyone said how lovely it was",
    ),
    (
        "boat",
        "was tied up in the harbour",
        "wanted to see the wide sea",
        "the big ships said that it was much too small",
        "saw a kitten that had fallen into the water",
        "slipped between the big ships, where no one else could go",
        "the kitten climbed in, safe and dry, and the big ships blew their horns",
    ),
    (
        "train",
        "lived at the end of the line",
        "wanted to climb the mountain",
        "the big engines puffed and laughed",
        "heard that the children on the other side had no toys for winter",
        'puffed and pulled, "I think I can, I know I can," up and up',
        "it rolled down the other side with a happy whistle",
    ),
    (
        "lantern",
        "hung by the garden gate",
        "was afraid of the dark",
        "every evening it shook in the wind",
        "saw a {girl|boy} who was even more afraid",
        "glowed warm and steady",
        "they kept each other company all night",
    ),
    (
        "key",
        "lay at the bottom of a drawer",
        "did not know which door it belonged to",
        "it had tried every lock in the house",
        "was found by a curious child",
        "fitted into a tiny box at last, and turned with a click",
        "inside the box lay letters from long ago, and a song",
    ),
    (
        "river",
        "ran down from the mountain",
        "wanted to know where it was going",
        "the rocks said that it would never get anywhere",
        "met another little river who was alone too",
        "joined hands with it, and they ran on together, wider and stronger",
        'at last they came to the sea, and the sea said, "Welcome home"',
    ),
    (
        "robot",
        "lived in a workshop",
        "wanted to know what it felt like to have a friend",
        "the machines only said beep and buzz",
        "found a bird with a broken wing",
        "built a tiny splint and sang a soft, rusty song",
        "the bird stayed, and the robot felt something warm inside",
    ),
    (
        "snowman",
        "stood in the garden",
        "wanted to see the summer",
        "everybody said that it could not be done",
        "asked the sun very politely",
        "melted slowly into a clear little pond",
        "in summer, the ducks swam on it, and the snowman laughed in every wave",
    ),
    (
        "seed",
        "slept deep under the ground",
        "was afraid of the light",
        "the worms told it scary stories",
        'heard the rain knock softly and say, "Come out"',
        "stretched and stretched and pushed up into the light",
        "it grew into a tree with room for a hundred birds",
    ),
    (
        "broom",
        "stood in the corner behind the door",
        "dreamed of flying",
        "the pots and pans made fun of it",
        "heard a small cry from the roof, where a kitten was stuck",
        "was held up high, higher than it had ever been",
        "the kitten climbed down on it, and for a moment the broom felt like flying",
    ),
    (
        "moon",
        "looked down at the sleeping world",
        "felt lonely",
        "the sun was always asleep when it was awake",
        "saw an owl who was awake too",
        "bent down and said hello",
        "the two of them talked all night, every night",
    ),
    (
        "wind",
        "blew all over the land",
        "wanted somebody to play with",
        "people closed their windows when it came",
        "found a child with a kite",
        "lifted the kite up, high and higher",
        'the child called, "Come back tomorrow!"',
    ),
    (
        "violin",
        "hung on the wall of an old shop",
        "had not made a sound for years",
        "everyone wanted the shiny trumpets",
        "was taken down by an old man with gentle hands",
        "sang, so softly that the whole street stood still",
        "every evening the shop was full of music",
    ),
    (
        "umbrella",
        "stood in a dark corner",
        "loved the rain",
        "it had been dry for weeks and weeks",
        "heard the first drop on the window",
        "opened with a happy whoosh",
        "three wet kittens found a dry place under it",
    ),
    (
        "pumpkin",
        "grew at the edge of the field",
        "was crooked and green on one side",
        "all the round orange ones were taken to the market",
        "met a family of mice who had no home",
        "let them make a door and two windows",
        "it was the warmest house in the whole field",
    ),
    (
        "sock",
        "lay under the bed",
        "had lost its other half",
        "it was much too dark and dusty there",
        "was found by a mouse with four babies",
        "was just the right size for a bed",
        "every night four tiny noses peeped out of it",
    ),
]


THING_GENERAL = dict(
    lived=[
        "lay in the grass",
        "stood in a corner",
        "lived in a big box",
        "lay at the bottom of a bag",
        "lived {|all alone }at the end of the road",
        "stood on a shelf",
    ],
    problem=[
        "felt useless",
        "wanted a friend",
        "wanted to see the world",
        "was lonely",
        "wanted to be loved",
        "wanted to be special",
    ],
    obstacle=[
        "nobody ever looked at it",
        "everyone walked right past it",
        "the others were bigger and newer",
        "nobody had time for it",
    ],
    turn=[
        "heard somebody cry",
        "was picked up by a small child",
        "met a mouse who had lost its way",
        "saw somebody who was even lonelier",
    ],
    deed=[
        "did everything it could to help",
        "stayed close all night and told a story",
        "listened, for a long, long time",
        "showed the way home",
    ],
    result=[
        "soon there was laughter again",
        "the two of them were never apart again",
        "everyone saw what a good heart it had",
        "it was taken home and loved",
    ],
)


def little_thing(s):
    if s.chance(0.3):
        noun = s.invent_kind()
        lived, problem, obstacle, turn, deed, result = (
            s.say(THING_GENERAL[part]) for part in ("lived", "problem", "obstacle", "turn", "deed", "result")
        )
    else:
        noun, lived, problem, obstacle, turn, deed, result = s.pick(LITTLE_THINGS)
    s.settle("meadow")
    adjective = (
        s.pick(["little", "little", "small", "tiny", "lonely", "old", "little"])
        if noun not in ("moon", "wind")
        else s.pick(["old", "lonely", "gentle"])
    )
    named = s.chance(0.15)
    s.bound["h"] = Referent(
        **{
            "": f"the {adjective} {noun}" if s.chance(0.4) else f"the {noun}",
            "they": "it",
            "them": "it",
            "their": "its",
            "self": "itself",
            "kind": noun,
            "noun": f"{adjective} {noun}",
            "full": f"the {adjective} {noun}",
        }
    )
    s.bound["adj"] = adjective
    s.paragraph(
        [
            f"once upon a time, there was a {adjective} {noun}. it {lived}.",
            f"the {adjective} {noun} {lived}.",
            f"a {adjective} {noun} {lived}.",
            f"there was once a {adjective} {noun} that {lived}.",
            f"once there was a {adjective} {noun}. it {lived}.",
            f"high and low you could look and never find a {noun} like this one. it {lived}.",
        ],
        f"the {noun} {problem}.",
        f"but {obstacle}." if s.chance(0.7) else f"{obstacle}.",
        s.maybe(
            0.4,
            '"What am I good for?" it {sighed|asked}.',
            '"If only somebody would talk to me," it thought.',
            "it felt very small.",
        ),
    )
    s.paragraph(
        [
            "{day after day|night after night}, nothing happened.",
            "so it waited and waited.",
            '"Maybe tomorrow," it said every evening.',
            "",
        ],
        f"then, [#dayonly], the {noun} {turn}.",
        [
            '"Now is the time," it thought.',
            '"I will help," said the [h.kind].',
            "it took a deep breath.",
            "it did not think twice.",
        ],
        f"it {deed}.",
    )
    s.paragraph(
        f"and {result}." if s.chance(0.6) else f"{result}.",
        [
            "the [h.noun] was {very |so |}[#happy].",
            "from that day on, the [h.kind] was never sad again.",
            f'"So this is what I am good for," it said.',
            'and even the biggest and brightest said, "Well done."',
        ],
        s.maybe(
            0.6,
            "you do not have to be big to do something good.",
            "even the smallest light can show the way.",
            "and if you look closely, you can still see it today.",
            "the end.",
            "everyone has a place in the world, and now it had found its own.",
        ),
    )
    s.about(
        f"a {noun}",
        f"a {adjective} {noun}",
        f"a little {noun}",
        f"a {noun} who {problem}",
        f"a lonely {noun}",
    )
    s.title = f"the {adjective} {noun}"
    s.fact(
        ["What was it about?", "Who was the story about?", "Who is the story about?"],
        [f"it is about a {adjective} {noun}."],
    )
    s.fact([f"How did it end?", f"What happened to the {noun}?"], [f"in the end, {result}."])
    s.thing_hero = True


def hide_and_seek(s):
    s.settle()
    s.hero()
    s.other("f")
    s.other("x")
    s.paragraph(
        *opening(s),
        [
            "[#dayonly], [h], [f.intro] and [x.intro] played hide and seek.",
            '[#dayonly], [f.intro] and [x.intro] came to play. "Let us play hide and seek!" said [h].',
        ],
    )
    s.paragraph(
        '"One, two, three, four, five," counted [f]. [h] hid [place.at]. [x] hid [place2.at].',
        ['"Ready or not, here I come!" called [f].', "[h] held [h.their] breath."],
        "[f] found [x] first, because [x] {sneezed|giggled|had left one foot sticking out}.",
        "but nobody found [h].",
    )
    twist = (
        s.pick(
            [
                ("[h] had fallen asleep", "they heard a soft snore [place.at]"),
                ("[h] was stuck and could not get out", 'they heard a tiny voice [place.at]. "I am stuck!"'),
                (
                    "[h] had found a baby {bird|mouse} and forgotten all about the game",
                    "they found [h] [place.at], with the little one in [h.their] [h.hands]",
                ),
                (
                    "[h] was so good at hiding that even the wind did not see [h.them]",
                    'they gave up. "You win!" they shouted, and out [h.they] came',
                ),
            ]
        )
        if s.region != "sea"
        else ("[h] had fallen asleep", "they heard a soft snore [place.at]")
    )
    s.paragraph(
        ["they looked and looked. the sun went down.", 'they called and called. "You can come out now!"'],
        ['"Where can [h.they] be?" asked [x].', "[f] began to worry."],
        f"but {twist[0]}.",
        f"at last {twist[1]}.",
        ["they all laughed.", '"There you are!" cried [f].', "they hugged [h] tight."],
    )
    s.paragraph(
        [
            '"Tomorrow it is my turn to count," said [h].',
            '"That was the best game ever," said [x].',
            '"Never hide so well again," said [f]. "We missed you."',
        ],
        s.pick(END_LINES),
    )
    s.about(
        "hide and seek",
        "a game",
        "three friends",
        "friends who play",
        "a [h.kind] who plays hide and seek",
        "a [h.kind], a [f.kind] and a [x.kind]",
        "playing",
    )
    s.title = "hide and seek"
    s.fact(["Where did [h] hide?"], ["[h.they] hid [place.at]."])
    s.fact(["What did they play?"], ["they played hide and seek."])


def magic_gift(s):
    """Three wishes, the last of which is given away."""
    s.settle(without=("sea",))
    s.hero(without=("magic",))
    s.other(
        "f",
        kinds=(
            ["fairy", "wizard", "gnome", "old woman", "frog", "fish", "witch", "elf", "mermaid"]
            if s.region in ("river", "seaside")
            else ["fairy", "wizard", "gnome", "old woman", "frog", "witch", "elf", "toad"]
        ),
    )
    s.other("x")
    s.paragraph(*opening(s))
    s.paragraph(
        [
            "[#dayonly], [h] helped [f.intro] {out of a thorn bush|carry a heavy bag|find a lost shoe|cross the stream}.",
            "[#dayonly], [h] shared [h.their] [food] with [f.intro].",
        ],
        '"You have a good heart," said [f]. "I will give you three wishes. Use them well!"',
    )
    first = s.pick(
        [
            (
                "wished for a mountain of [food]",
                "poof, there it was. [h] ate and ate, until [h.they] could not even look at it any more",
            ),
            (
                "wished to be as big as a house",
                "poof, [h.they] grew and grew. but then [h.they] did not fit through the door",
            ),
            ("wished for a golden crown", "poof, there it was. but it was so heavy that [h.their] head hurt"),
            (
                "wished that everything was blue",
                "poof, the trees were blue, the sun was blue and the soup was blue. it looked very sad",
            ),
            (
                "wished that it was always night",
                "poof, the sun was gone. soon everyone bumped into each other",
            ),
        ]
    )
    s.paragraph(
        f"first, [h] {first[0]}. {first[1]}.",
        [
            "so the second wish was that everything should be as before.",
            '"Oh dear," said [h]. "I wish it was all like before!" and poof, it was. now there was only one wish left.',
        ],
    )
    s.paragraph(
        "[h] sat [place.at] and thought for a long time about the last wish.",
        'then [x.intro] came by, looking [#sad]. "{I am all alone|My little one is ill|I have lost my home|I am so hungry}," said [x].',
        [
            '[h] did not think any longer. "I wish that [x] is happy," [h.they] said.',
            '"Then my last wish is for you," said [h].',
        ],
        [
            "and poof, [x] smiled, and everything was well.",
            "there was a flash of light, and [x] began to laugh.",
        ],
        [
            '"But now you have nothing for yourself," said [x]. "I have a friend," said [h].',
            '[f] had seen it all and nodded. "That was the best wish of all," said [f].',
        ],
    )
    ending(s, ["the best wishes are for others", "you do not need magic to be happy"])
    s.about(
        "three wishes",
        "a [h.kind] with three wishes",
        "magic",
        "a [f.kind] and a [h.kind]",
        "a magic [f.kind]",
        "a [h.kind] who meets a [f.kind]",
        "a wish",
    )
    s.title = "the three wishes"
    s.fact(["What was the last wish?"], ["the last wish was for [x]."])
    s.fact(["What was the first wish?"], [f"[h] {first[0]}."])


PLOTS = [
    (wish, 30),
    (lost_thing, 9),
    (lost_little_one, 6),
    (quarrel, 6),
    (newcomer, 5),
    (kindness_returned, 5),
    (fear, 7),
    (strange_sound, 6),
    (storm, 5),
    (cannot_sleep, 5),
    (gift, 5),
    (confession, 5),
    (delivery, 5),
    (soup, 4),
    (greedy, 4),
    (helper_bird, 5),
    (old_place, 9),
    (little_thing, 9),
    (hide_and_seek, 3),
    (magic_gift, 4),
]
FUNCTIONS = [p for p, _ in PLOTS]
WEIGHTS = [w for _, w in PLOTS]


def tell(story, plot=None):
    """Tells one whole story; its shape is drawn by weight unless given."""
    plot = plot or story.rng.choices(FUNCTIONS, WEIGHTS)[0]
    story.shape = plot.__name__
    plot(story)
    return story
