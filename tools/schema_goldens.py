#!/usr/bin/env python3
"""Records what `jsonschema` says about random values and schemas.

    python3 tools/schema_goldens.py > tests/data/grammar/schemas.json

Each case has a schema, as text, and texts of values that are valid under it and of others that are not. Where "complete"
is true, the server writes all of the valid ones: numbers of up to 15 digits, without an exponent. Numbers with a point are
read as doubles; beside `multipleOf` exactly, as JSON Schema defines it.
"""

import decimal
import json
import random
import sys

import jsonschema

SEED = 20250212
NUMBERS, OBJECTS, LISTS = 500, 300, 150
RANDOM = random.Random(SEED)


def written(number):
    """Of up to three places and without needless zeros."""
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def bound():
    kind = RANDOM.random()
    if kind < 0.4:
        return str(RANDOM.randint(-30, 30))
    if kind < 0.7:
        return written(RANDOM.uniform(-12, 12))
    if kind < 0.8:
        return RANDOM.choice(["0", "1e2", "1.0", "-2.50", "1e-2", "0.1", "100", "999", "1000", "-1000"])
    if kind < 0.9:
        return str(RANDOM.randint(-(10**12), 10**12))
    return RANDOM.choice(["123456789012345678901", "1e20", "-1e16", "9007199254740993", "0.30000000000000004"])


def number_schema():
    parts = [f'"type":"{RANDOM.choice(["integer", "number"])}"']
    for keyword in RANDOM.sample(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], RANDOM.randint(0, 2)):
        parts.append(f'"{keyword}":{bound()}')
    if len(parts) == 1 or RANDOM.random() < 0.3:
        step = RANDOM.choice(["1", "2", "3", "5", "7", "10", "12", "25", "100", "256", "1000", "0.5", "0.25", "0.1", "0.01", "1.5", "2.0"])
        parts.append(f'"multipleOf":{step}')
    return "{" + ",".join(parts) + "}"


def near(text):
    """Numbers around a bound, and others."""
    value = decimal.Decimal(text)
    for step in ["0", "1", "-1", "0.5", "-0.5", "0.1", "-0.1", "0.01", "-0.01", "0.001", "-0.001", "10", "-10", "9", "100", "-250"]:
        yield value + decimal.Decimal(step)
    yield value * 2
    yield -value
    yield value.to_integral_value()


def number_texts(schema):
    tree = json.loads(schema, parse_float=decimal.Decimal, parse_int=decimal.Decimal)
    values = {decimal.Decimal(RANDOM.randint(-40, 40)) for _ in range(8)}
    values |= {decimal.Decimal(RANDOM.randint(-4000, 4000)) / 100 for _ in range(8)}
    for keyword, value in tree.items():
        if keyword != "type":
            values |= set(near(str(value)))
    for value in sorted(values):
        text = format(value, "f")
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        digits = text.lstrip("-").replace(".", "").lstrip("0")
        if text not in ("-0", "") and len(digits) <= (7 if "multipleOf" in tree else 15):
            yield text


def leaf():
    return RANDOM.choice(
        [
            {"type": "integer", "minimum": RANDOM.randint(-3, 2), "maximum": RANDOM.randint(3, 9)},
            {"type": "string", "enum": RANDOM.sample(["a", "b", "c", "d"], 2)},
            {"type": "string", "pattern": RANDOM.choice(["^a", "b$", "^[ab]*$", "c"]), "maxLength": RANDOM.randint(2, 4)},
            {"type": "string", "minLength": RANDOM.randint(0, 3)},
            {"enum": RANDOM.sample([1, 1.0, 2, "a", None, True, "b", 7.5], 3)},
            {"type": ["integer", "null"]},
            {"type": "boolean"},
            {"const": RANDOM.choice([1, "a", None, 2.0])},
            {"anyOf": [{"type": "null"}, {"type": "integer", "multipleOf": 2}]},
            {"type": "integer", "enum": [1.0, 2.0, 3.5]},
        ]
    )


def plain_object():
    names = RANDOM.sample(["a", "b", "c", "d"], RANDOM.randint(1, 3))
    schema = {"type": "object", "properties": {name: leaf() for name in names}}
    schema["required"] = [name for name in names if RANDOM.random() < 0.6]
    if RANDOM.random() < 0.25:
        schema["additionalProperties"] = RANDOM.choice([False, {"type": "integer"}, True])
    return schema


def object_schema():
    kind = RANDOM.random()
    if kind < 0.35:
        return {"allOf": [plain_object() for _ in range(RANDOM.randint(2, 3))]}
    if kind < 0.5:
        return {"$defs": {"base": plain_object()}, "$ref": "#/$defs/base", **plain_object()}
    if kind < 0.65:
        return {**plain_object(), "anyOf": [{"required": ["a"]}, {"properties": {"b": leaf()}, "required": ["b"]}]}
    tagged = []
    for tag in RANDOM.sample(["x", "y", "z"], RANDOM.randint(2, 3)):
        one = plain_object()
        one["properties"] = {"kind": {"const": tag, "type": "string"}, **one["properties"]}
        one["required"] = ["kind", *one["required"]]
        tagged.append(one)
    schema = {"oneOf": tagged}
    if kind < 0.85:
        schema["discriminator"] = {"propertyName": "kind"}
    return schema


VALUES = [0, 1, 2, 3, 4, 5, 7, 8, -2, 12, 1.0, 7.5, "a", "b", "c", "ab", "ba", "abc", "aab", "abcde", "", None, True, False]


def order_of(schema, root):
    """Names of properties as the server writes them: what a schema refers to comes before its own."""
    if "$ref" in schema:
        yield from order_of(root["$defs"]["base"], root)
    for one in schema.get("allOf", []):
        yield from order_of(one, root)
    yield from schema.get("properties", {})
    for choice in ("anyOf", "oneOf"):
        for one in schema.get(choice, []):
            yield from order_of(one, root)


def schemas_of(name, schema):
    """What is said about a property, wherever it stands."""
    if isinstance(schema, dict):
        if name in schema.get("properties", {}):
            yield schema["properties"][name]
        for value in schema.values():
            yield from schemas_of(name, value)
    elif isinstance(schema, list):
        for value in schema:
            yield from schemas_of(name, value)


def object_texts(schema):
    names = list(dict.fromkeys(order_of(schema, schema)))
    likely = {}
    for name in names:
        said = [jsonschema.Draft202012Validator(one) for one in schemas_of(name, schema)]
        likely[name] = [value for value in VALUES if all(one.is_valid(value) for one in said)] or VALUES
    for _ in range(25):
        value = {}
        for name in names:
            if RANDOM.random() < 0.75:
                choices = ["x", "y", "z"] if name == "kind" else likely[name] if RANDOM.random() < 0.85 else VALUES
                value[name] = RANDOM.choice(choices)
        yield json.dumps(value, separators=(",", ":"))


def list_schema():
    kind = RANDOM.random()
    if kind < 0.3:
        return json.dumps({"enum": RANDOM.sample([1, 1.0, 2.5, "a", None, True, [1], {"a": 1}], 4), **RANDOM.choice([{}, {"minimum": 2}, {"type": "integer"}, {"maxLength": 0}])})
    if kind < 0.6:
        return json.dumps({"type": "string", "format": RANDOM.choice(["date", "date-time", "time", "email", "ipv4", "ipv6", "uuid"])})
    least = RANDOM.randint(0, 3)
    return json.dumps({"type": "array", "items": leaf(), "minItems": least, "maxItems": least + RANDOM.randint(0, 2)})


TEXTS = [
    "2024-02-28", "2024-13-01", "2024-04-31", "2024-01-31", "2024-02-28T23:59:59Z", "2024-02-28T23:59:59.5+02:00", "2024-02-28 23:59:59Z",
    "24:00:00Z", "23:00:00Z", "ann@example.org", "a.b@c.de", "a b@c.de", "@c.de", "10.0.0.1", "256.1.1.1", "1.2.3", "01.2.3.4", "255.255.255.255",
    "2001:db8:0:0:0:0:0:1", "1:2:3", "12345678-9abc-def0-1234-56789abcdef0", "12345678", "",
]  # fmt: skip


def list_texts(schema):
    tree = json.loads(schema)
    if "format" in tree:
        yield from (json.dumps(text) for text in TEXTS)
    elif "items" in tree:
        for _ in range(30):
            yield json.dumps([RANDOM.choice(VALUES) for _ in range(RANDOM.randint(0, 4))], separators=(",", ":"))
    else:
        for value in [1, 1.0, 2, 2.5, "a", None, True, [1], {"a": 1}, [], {"a": 2}, 3]:
            yield json.dumps(value, separators=(",", ":"))


def is_valid(schema, text):
    exact = {"parse_float": decimal.Decimal} if "multipleOf" in schema else {}
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator(json.loads(schema, **exact), format_checker=checker).is_valid(json.loads(text, **exact))


def case_of(schema, texts):
    valid, invalid = [], []
    for text in dict.fromkeys(texts):
        (valid if is_valid(schema, text) else invalid).append(text)
    most = 16
    return {"schema": schema, "complete": False, "valid": valid, "invalid": RANDOM.sample(invalid, min(most, len(invalid)))}


def main():
    cases = []
    for _ in range(NUMBERS):
        schema = number_schema()
        cases.append({**case_of(schema, number_texts(schema)), "complete": True})
    for _ in range(OBJECTS):
        tree = object_schema()
        cases.append(case_of(json.dumps(tree), object_texts(tree)))
    for _ in range(LISTS):
        schema = list_schema()
        cases.append(case_of(schema, list_texts(schema)))
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    sys.stdout.write(f'{{"jsonschema": "{jsonschema.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
