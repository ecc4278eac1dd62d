"""An Earley recogniser of grammars in GBNF: what the tests compare the server's answers with."""

import re

TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n]|\#[^\n]*)+)|(?P<define>[\w-]+[ \t]*::=)|(?P<name>[\w-]+)|(?P<mark>[()|*+?.])"""
    r"""|"(?P<literal>(?:\\.|[^"\\])*)"|\[(?P<class>(?:\\.|[^\]\\])*)\]|\{(?P<braces>[ \d,]*)\}""",
    re.VERBOSE | re.DOTALL,
)
CHARACTER = re.compile(r"\\x(..)|\\u(.{4})|\\U(.{8})|\\(.)|(.)", re.DOTALL)


def characters(text):
    """The characters of a literal or class; an escape is one."""
    for match in CHARACTER.finditer(text):
        digits = match[1] or match[2] or match[3]
        if digits:
            yield chr(int(digits, 16)), True
        elif match[4]:
            yield {"n": "\n", "r": "\r", "t": "\t"}.get(match[4], match[4]), True
        else:
            yield match[5], False


class CharacterClass:
    def __init__(self, text):
        self.negated = text.startswith("^")
        found = list(characters(text.removeprefix("^")))
        self.ranges = []
        while found:
            first, _ = found.pop(0)
            if len(found) > 1 and found[0] == ("-", False):
                found.pop(0)
                self.ranges.append((first, found.pop(0)[0]))
            else:
                self.ranges.append((first, first))

    def __contains__(self, character):
        return any(first <= character <= last for first, last in self.ranges) != self.negated


class Gbnf:
    """Symbols are names of rules (str) and classes. A rule is a list of sequences of symbols."""

    def __init__(self, text):
        self.rules = {}
        self.tokens = [(m.lastgroup, m[m.lastgroup]) for m in TOKEN.finditer(text) if m.lastgroup != "space"]
        while self.tokens:
            kind, name = self.tokens.pop(0)
            assert kind == "define", name
            self.rules[name.removesuffix("::=").strip()] = self.alternatives()

    def next_is(self, *marks):
        return bool(self.tokens) and self.tokens[0][0] == "mark" and self.tokens[0][1] in marks

    def new_rule(self, sequences):
        name = f" {len(self.rules)}"  # no grammar has a name with a space
        self.rules[name] = sequences
        return name

    def alternatives(self):
        sequences = [self.sequence()]
        while self.next_is("|"):
            self.tokens.pop(0)
            sequences.append(self.sequence())
        return sequences

    def sequence(self):
        symbols = []
        while self.tokens and self.tokens[0][0] != "define" and not self.next_is("|", ")"):
            symbols += self.repeated(self.element())
        return symbols

    def element(self):
        kind, value = self.tokens.pop(0)
        if kind == "literal":
            return [CharacterClass(rf"\U{ord(c):08x}") for c, _ in characters(value)]
        if kind == "class":
            return [CharacterClass(value)]
        if kind == "name":
            return [value]
        if value == ".":
            return [CharacterClass("^")]
        assert value == "(", value
        group = self.new_rule(self.alternatives())
        assert self.tokens.pop(0)[1] == ")"
        return [group]

    def repeated(self, symbols):
        while self.next_is("*", "+", "?") or (self.tokens and self.tokens[0][0] == "braces"):
            kind, value = self.tokens.pop(0)
            if kind == "braces":
                least, comma, most = (part.strip() for part in value.partition(","))
                least, most = int(least), int(most) if most else None if comma else int(least)
            else:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[value]
            symbols = symbols * least + self.up_to(symbols, None if most is None else most - least)
        return symbols

    def up_to(self, symbols, most):
        if most is None:
            name = self.new_rule([])
            self.rules[name] = [[], symbols + [name]]
            return [name]
        rest = []
        for _ in range(most):
            rest = [self.new_rule([[], symbols + rest])]
        return rest

    def states_of(self, text):
        """Whether the text is complete after each of its characters, up to the first that is wrong."""
        columns = [set()]
        self.close(columns, {("root", tuple(s), 0, 0) for s in self.rules["root"]})
        yield self.is_complete(columns[0])
        for character in text:
            read = {(r, s, at + 1, b) for r, s, at, b in columns[-1] if at < len(s) and not isinstance(s[at], str) and character in s[at]}
            if not read:
                return
            columns.append(set())
            self.close(columns, read)
            yield self.is_complete(columns[-1])

    @staticmethod
    def is_complete(column):
        return any(r == "root" and b == 0 and at == len(s) for r, s, at, b in column)

    def close(self, columns, open_items):
        here = len(columns) - 1
        column, empty = columns[-1], set()
        while open_items:
            item = open_items.pop()
            if item in column:
                continue
            column.add(item)
            rule, symbols, at, begin = item
            if at == len(symbols):
                if begin == here:
                    empty.add(rule)
                waiting = columns[begin]
                open_items |= {(r, s, a + 1, b) for r, s, a, b in waiting if a < len(s) and s[a] == rule} - column
            elif isinstance(symbols[at], str):
                open_items |= {(symbols[at], tuple(s), 0, here) for s in self.rules[symbols[at]]} - column
                if symbols[at] in empty:
                    open_items.add((rule, symbols, at + 1, begin))

    def matches(self, text):
        states = list(self.states_of(text))
        return len(states) == len(text) + 1 and states[-1]

    def begins(self, text):
        return len(list(self.states_of(text))) == len(text) + 1
