"""Validates values with the part of JSON Schema (2020-12) that this folder's schemas use."""

import json
import os

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
KNOWN = {
    "$schema", "$id", "title", "description", "type", "properties", "required", "additionalProperties", "items",
    "enum", "minimum", "maximum", "minItems", "pattern",
}  # fmt: skip


class Invalid(Exception):
    pass


def load(name):
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return json.load(file)


def has_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"  # in Python, a bool is also an int
    return isinstance(value, TYPES[name])


def check(value, schema, path="$"):
    unknown = set(schema) - KNOWN
    if unknown:
        raise Invalid(f"{path}: the schema uses {sorted(unknown)}, which this checker does not know")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(has_type(value, name) for name in types):
        raise Invalid(f"{path}: {value!r} is no {' or '.join(types)}")
    if value is None:
        return
    if "enum" in schema and value not in schema["enum"]:
        raise Invalid(f"{path}: {value!r} is not one of {schema['enum']}")
    if "minimum" in schema and value < schema["minimum"]:
        raise Invalid(f"{path}: {value!r} is below {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        raise Invalid(f"{path}: {value!r} is above {schema['maximum']}")
    if isinstance(value, list):
        check_array(value, schema, path)
    if isinstance(value, dict):
        check_object(value, schema, path)


def check_array(value, schema, path):
    if len(value) < schema.get("minItems", 0):
        raise Invalid(f"{path}: {len(value)} items, at least {schema['minItems']} wanted")
    for i, item in enumerate(value):
        check(item, schema.get("items", {}), f"{path}[{i}]")


def check_object(value, schema, path):
    properties = schema.get("properties", {})
    for key in schema.get("required", []):
        if key not in value:
            raise Invalid(f"{path}: {key} is missing")
    for key, item in value.items():
        if key in properties:
            check(item, properties[key], f"{path}.{key}")
        elif schema.get("additionalProperties") is False:
            raise Invalid(f"{path}: {key} is not in the schema")
