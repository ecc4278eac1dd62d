"""serval tokenize and serval detokenize."""

import json
import unittest

from harness import Case, run


class Tokenize(Case):
    def out(self, *arguments, stdin=b""):
        result = run(*arguments, stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout

    def test_ids_become_the_text_again(self):
        for text in [b"Once upon a time", "a € and\ttabs".encode()]:
            ids = self.out("tokenize", "--prompt-file", "-", stdin=text)
            self.assertEqual(self.out("detokenize", stdin=ids), text + b"\n")
            self.assertEqual(self.out("detokenize", ids.decode().strip().replace(" ", ",")), text + b"\n")

    def test_control_tokens_are_text_unless_special(self):
        plain = self.out("tokenize", "-p", "<|eot_id|>").split()
        special = self.out("tokenize", "-p", "<|eot_id|>", "--special")
        self.assertGreater(len(plain), 2)
        self.assertEqual(len(special.split()), 2)
        self.assertEqual(self.out("detokenize", stdin=special), b"\n")
        self.assertEqual(self.out("detokenize", "--special", stdin=special), b"<|begin_of_text|><|eot_id|>\n")

    def test_json_is_an_object_a_text(self):
        out = [json.loads(line) for line in self.out("tokenize", "-p", "one", "-p", "two", "--json").splitlines()]
        self.assertEqual([o["text"] for o in out], ["one", "two"])
        self.assertTrue(all(o["count"] == len(o["tokens"]) for o in out))
        back = json.loads(self.out("detokenize", "--json", ",".join(map(str, out[0]["tokens"]))))
        self.assertEqual(back, out[0])

    def test_a_preset_has_bytes_for_tokens(self):
        result = run("tokenize", "-m", "llama-3.2-1b", "-p", "AB")
        self.assertEqual((result.returncode, result.stdout), (0, b"65 66\n"))

    def test_ids_out_of_range_are_refused(self):
        self.check_fails(2, "tokens[1]: token 99999", arguments=["detokenize", "1,99999"])
        self.check_fails(2, "token", "is not a whole number", arguments=["detokenize", "1,x"])


if __name__ == "__main__":
    unittest.main()
