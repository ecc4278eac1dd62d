"""A flag's value out of range is refused with one line that names the flag, the value and the limit."""

import unittest

from harness import Case, run

HELP = "; see serval generate --help"


class Flags(Case):
    def refuses(self, flag, value, *needles):
        with self.subTest(flag=flag, value=value):
            self.check_fails(2, flag, value, HELP, *needles, arguments=["generate", "-p", "x", flag, value])

    def test_numbers_are_checked_against_their_range(self):
        for flag, value, limit in [
            ("--temp", "-0.1", "0 to 100"),
            ("--temp", "100.5", "0 to 100"),
            ("--temp", "1e999", "0 to 100"),
            ("--temp", "inf", "0 to 100"),
            ("--top-k", "-1", "0 to 2147483647"),
            ("--top-p", "0", "above 0, up to 1"),
            ("--top-p", "1e-60", "above 0, up to 1"),
            ("--top-p", "1.01", "above 0, up to 1"),
            ("--min-p", "-1", "0 to 1"),
            ("--repeat-penalty", "0", "above 0, up to 10"),
            ("--repeat-last-n", "-2", "-1 to 2147483647"),
            ("--presence-penalty", "2.1", "-2 to 2"),
            ("--presence-penalty", "-inf", "-2 to 2"),
            ("--frequency-penalty", "-2.1", "-2 to 2"),
            ("--min-tokens", "-1", "0 to 2147483647"),
            ("--stop-token", "-1", "0 to 2147483647"),
            ("--top-logprobs", "21", "0 to 20"),
            ("--answers", "0", "1 to 128"),
            ("--answers", "129", "1 to 128"),
            ("--deadline", "0", "above 0, up to 86400"),
            ("--deadline", "-1", "above 0, up to 86400"),
            ("--prompt-ids", "-1", "0 to 2147483647"),
            ("--n-predict", "-2", "-1 to 2147483647"),
            ("--n-predict", "99999999999999999999", "-1 to 2147483647"),
            ("--ctx-size", "-1", "0 to 16777216"),
            ("--seed", "-2", "-1, or 0 to 18446744073709551615"),
            ("--seed", "18446744073709551616", "-1, or 0 to 18446744073709551615"),
            ("--threads", "100000", "0 to 1024"),
            ("--sms", "0", "1 to 1024"),
            ("--random-weights", "-1", "0 to 18446744073709551615"),
        ]:
            self.refuses(flag, value, limit)

    def test_lora_is_refused_by_name(self):
        for command in ("generate", "chat", "serve"):
            for flag in ("--lora", "--lora=adapter", "--enable-lora", "--lora-modules", "--lora-scaled"):
                with self.subTest(command=command, flag=flag):
                    self.check_fails(2, flag, "LoRA adapters must be merged", arguments=[command, flag])

    def test_text_that_is_no_number_is_refused(self):
        for flag, value in [
            ("--temp", "nan"),
            ("--temp", "warm"),
            ("--presence-penalty", "nan"),
            ("--frequency-penalty", "nan"),
            ("--temp", "0.8x"),
            ("--temp", " 1"),
            ("--top-k", "4.5"),
            ("--n-predict", "0x10"),
            ("--n-predict", "1 2"),
            ("--seed", "1e3"),
            ("--answers", "2.5"),
            ("--deadline", "nan"),
            ("--prompt-ids", "ten"),
        ]:
            self.refuses(flag, value, "number")

    def test_biases_are_a_token_a_sign_and_a_number(self):
        for value, needle in [
            ("15043", "+ or -"),
            ("+1", "+ or -"),
            ("x+1", "number"),
            ("5+x", "number"),
            ("5+nan", "number"),
            ("5+100.5", "-100 to 100"),
            ("5-101", "-100 to 100"),
        ]:
            with self.subTest(value=value):
                self.check_fails(2, "--logit-bias", HELP, needle, arguments=["generate", "-p", "x", "--logit-bias", value])

    def test_a_size_is_bytes_with_a_unit_or_a_share(self):
        for value, needle in [
            ("5T", "512M or 8G"),
            ("-1", "512M or 8G"),
            ("1.5G", "512M or 8G"),
            ("0", "1 to"),
        ]:
            self.refuses("--kv-cache-memory", value, needle)

    def test_lists_of_ids_are_numbers_apart_by_commas(self):
        for value, needle in [("1,,2", "'' is not a whole number"), ("1, 2", "' 2' is not"), ("1,x", "'x' is not"), ("", "''")]:
            with self.subTest(value=value):
                self.check_fails(2, "--prompt-ids", HELP, needle, arguments=["generate", "--prompt-ids", value])

    def test_choices_are_listed(self):
        for flag, choice in [
            ("--backend", "torch"),
            ("--policy", "zig-zag"),
            ("--queue", "per-sm"),
            ("--chat-template", "chatml"),
            ("--progress", "auto"),
            ("--log-level", "debug"),
        ]:
            self.refuses(flag, "bogus", choice)

    def test_an_empty_value_is_refused(self):
        for flag in ["--prompt", "--stop", "--model", "--file"]:
            self.check_fails(2, flag, "empty", HELP, arguments=["generate", flag, ""])

    def test_a_long_value_is_cut_in_the_message(self):
        result = self.check_fails(2, "--temp", arguments=["generate", "-p", "x", "--temp", "9" * 5000])
        self.assertLess(len(result.stderr), 300)

    def test_unknown_flags_and_arguments_are_named(self):
        self.check_fails(2, "--bogus", HELP, arguments=["generate", "-p", "x", "--bogus"])
        self.check_fails(2, "stray", HELP, arguments=["generate", "-p", "x", "stray"])

    def test_a_flag_without_its_value_is_named(self):
        self.check_fails(2, "--temp: needs a value", HELP, arguments=["generate", "-p", "x", "--temp"])

    def test_a_prompt_is_required(self):
        self.check_fails(2, "-p TEXT", arguments=["generate"])

    def test_unknown_and_missing_commands_are_refused(self):
        self.check_fails(2, "bogus", "serval --help", arguments=["bogus"])
        self.check_fails(2, "serval --help", arguments=[])

    def test_a_value_may_look_like_a_flag_or_a_list(self):
        for prompt in ["--json", "-5", "[a,b]", "a,b", "%d {} \\n"]:
            result = run("generate", *self.with_model, "-n", "1", "-p", prompt)
            self.assertEqual(result.returncode, 0, msg=result.stderr)
            self.assertTrue(result.stdout.startswith(prompt.encode()))

    def test_the_last_of_a_repeated_flag_wins(self):
        result = run("generate", *self.with_model, "-p", "x", "-n", "50", "-n", "1", "--ignore-eos")
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertIn(b"generated 1 tokens", result.stderr)


class Help(unittest.TestCase):
    def test_every_command_explains_itself_on_stdout(self):
        for command in ["generate", "chat", "schedule", "bench", "info"]:
            for flag in ["--help", "-h"]:
                result = run(command, flag)
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                self.assertIn(b"Examples", result.stdout)
                self.assertIn(b"SERVAL_", result.stdout)

    def test_the_program_explains_itself(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        for command in [b"generate", b"chat", b"schedule", b"bench", b"info"]:
            self.assertIn(command, result.stdout)

    def test_the_version_is_printed(self):
        result = run("--version")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertRegex(result.stdout, rb"^serval \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
