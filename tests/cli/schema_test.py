"""The schema checker of the other tests refuses invalid values."""

import unittest

import schema

POINT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["x"],
    "properties": {"x": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
}


class Schema(unittest.TestCase):
    def test_what_fits_passes(self):
        schema.check({"x": 1, "tags": ["a", "b"]}, POINT)

    def test_what_does_not_fit_is_refused(self):
        for value in [[], {}, {"x": -1}, {"x": 1.5}, {"x": True}, {"x": 1, "y": 2}, {"x": 1, "tags": ["c"]}]:
            with self.subTest(value=value), self.assertRaises(schema.Invalid):
                schema.check(value, POINT)

    def test_a_keyword_that_it_does_not_know_is_refused(self):
        with self.assertRaises(schema.Invalid):
            schema.check(1, {"oneOf": []})


if __name__ == "__main__":
    unittest.main()
