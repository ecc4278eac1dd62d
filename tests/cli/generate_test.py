"""serval generate: one prompt, several, files of prompts; JSON; seeds; stdout and stderr."""

import json
import os
import signal
import subprocess
import unittest

import schema
from harness import PATIENCE, Case, run, start

REPLACEMENT = "\ufffd".encode()


class Generate(Case):
    def generate(self, *arguments, stdin=b""):
        result = run("generate", *self.with_model, "-s", "1", *arguments, stdin=stdin)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result

    def responses(self, *arguments, stdin=b""):
        out = self.generate("--json", *arguments, stdin=stdin).stdout
        if "-f" not in arguments:
            return json.loads(out)["responses"]
        return sorted(map(json.loads, out.splitlines()), key=lambda response: response["index"])

    def test_text_goes_to_stdout_and_timings_to_stderr(self):
        result = self.generate("-p", "Once", "-n", "4", "--ignore-eos")
        self.assertTrue(result.stdout.startswith(b"Once"))
        self.assertTrue(result.stdout.endswith(b"\n"))
        self.assertNotIn(b"tokens/s", result.stdout)
        self.assertIn(b"tokens/s", result.stderr)
        self.assertIn(b"seed 1", result.stderr)

    def test_without_echo_the_prompt_is_not_printed(self):
        text = self.responses("-p", "Once", "-n", "4")[0]["text"]
        result = self.generate("-p", "Once", "-n", "4", "--no-echo")
        self.assertEqual(result.stdout.decode().rstrip("\n"), text.rstrip("\n"))

    def test_how_two_gpus_are_run_on_the_host_does_not_show(self):
        answers = [
            self.responses("-p", "Once", "-n", "6", "--backend", "host", *arguments)[0]
            for arguments in [["--gpus", "2"], ["--gpus", "0,0", "--sms", "3"], ["--gpus", "1,0", "--threads", "1", "--checked"]]
        ]
        for answer in answers[1:]:
            self.assertEqual(answer["tokens"], answers[0]["tokens"])
            self.assertEqual(answer["log_probabilities"], answers[0]["log_probabilities"])

    def test_errors_only_leave_stderr_silent(self):
        self.assertEqual(self.generate("-p", "x", "-n", "2", "--log-level", "error").stderr, b"")

    def test_the_json_fits_its_schema(self):
        for prompts in [["-p", "one"], ["-p", "one", "-p", "two"]]:
            out = json.loads(self.generate("--json", "-n", "3", *prompts).stdout)
            schema.check(out, schema.load("generate.schema.json"))
            for response in out["responses"]:
                schema.check(response, schema.load("response.schema.json"))
                self.assertEqual(len(response["tokens"]), len(response["log_probabilities"]))

    def test_the_likeliest_tokens_are_listed_where_they_are_asked_for(self):
        asked = ["--top-logprobs", "3", "-n", "4", "--ignore-eos", "--temp", "0"]
        stdin = b"one\ntwo\n"
        lines = self.generate("--json", "-f", "-", *asked, stdin=stdin).stdout.splitlines()
        for response in [json.loads(line) for line in lines] + self.responses("-p", "one", *asked):
            top = response["top_logprobs"]
            self.assertEqual([len(place) for place in top], [3] * 4)
            self.assertEqual([place[0]["token"] for place in top], response["tokens"])
            self.assertEqual([place[0]["log_probability"] for place in top], response["log_probabilities"])
        response = self.responses("-p", "one", *asked)[0]
        schema.check(response, schema.load("response.schema.json"))
        self.assertNotIn("top_logprobs", self.responses("-p", "one", "-n", "4")[0])
        self.check_fails(2, "--top-logprobs: needs --json", arguments=["generate", "-p", "x", "--top-logprobs", "3"])

    def test_biases_force_and_minimum_and_stop_tokens_hold(self):
        asked = ["-p", "x", "-n", "6", "--temp", "0"]
        self.assertEqual(self.responses(*asked, "-l", "42+100")[0]["tokens"], [42] * 6)
        forced = [*asked, "-l", "42+100", "--stop-token", "42"]
        self.assertEqual(self.responses(*forced)[0]["tokens"], [42])
        tokens = self.responses(*forced, "--min-tokens", "4")[0]["tokens"]
        self.assertEqual(len(tokens), 5)
        self.assertEqual(tokens.index(42), 4)
        self.check_fails(2, "min_tokens: 7; limit: max_tokens (6)", arguments=["generate", *self.with_model, *asked, "--min-tokens", "7"])
        self.check_fails(2, "logit_bias[0]: token 99999999", arguments=["generate", *self.with_model, *asked, "-l", "99999999+1"])

    def test_a_seed_repeats_a_run(self):
        arguments = ["-p", "x", "-n", "8", "--temp", "2", "--ignore-eos"]
        self.assertEqual(self.responses(*arguments)[0]["tokens"], self.responses(*arguments)[0]["tokens"])

    def test_without_a_seed_the_one_that_was_drawn_is_printed(self):
        arguments = ["generate", *self.with_model, "-p", "x", "-n", "8", "--json", "--ignore-eos"]
        out = json.loads(run(*arguments).stdout)
        again = run(*arguments, "-s", str(out["seed"]))
        self.assertEqual(out["responses"][0]["tokens"], json.loads(again.stdout)["responses"][0]["tokens"])

    def test_several_prompts_are_printed_in_order_and_apart(self):
        result = self.generate("-p", "first", "-p", "second", "-p", "third", "-n", "3", "--ignore-eos")
        heads = [b"==> 1 of 3 <==\nfirst", b"==> 2 of 3 <==\nsecond", b"==> 3 of 3 <==\nthird"]
        places = [result.stdout.index(head) for head in heads]
        self.assertEqual(places, sorted(places))

    def test_more_prompts_than_one_batch_holds_all_get_an_answer(self):
        stdin = b"".join(b"prompt %d\n" % i for i in range(20))
        responses = self.responses("-f", "-", "-n", "2", "--ignore-eos", stdin=stdin)
        self.assertEqual([r["prompt"] for r in responses], [f"prompt {i}" for i in range(20)])
        self.assertTrue(all(len(r["tokens"]) == 2 for r in responses))

    def test_answers_to_a_file_are_lines_in_the_order_in_which_they_end(self):
        stdin = b"".join(b"prompt %d\n" % i for i in range(5))
        lines = [json.loads(line) for line in self.generate("--json", "-f", "-", "-n", "3", stdin=stdin).stdout.splitlines()]
        self.assertEqual(sorted(line["index"] for line in lines), list(range(5)))
        for line in lines:
            self.assertEqual((line.pop("seed"), line["prompt"]), (1, f"prompt {line.pop('index')}"))
            schema.check(line, schema.load("response.schema.json"))

    def test_a_prompt_file_is_one_prompt_with_its_newlines(self):
        with open(self.path("story.txt"), "wb") as file:
            file.write(b"one\n\ntwo\n")
        responses = self.responses("--prompt-file", self.path("story.txt"), "-p", "three", "-n", "1")
        self.assertEqual([r["prompt"] for r in responses], ["three", "one\n\ntwo\n"])
        self.check_fails(1, "nowhere.txt", arguments=["generate", "--prompt-file", "nowhere.txt"])

    def test_control_tokens_in_a_prompt_are_text_unless_special(self):
        for flags, tokens in [([], 9), (["--special"], 2)]:  # 2 tokens: BOS and the control token
            result = run("generate", "-p", "<|eot_id|>", "-n", "1", "--json", *flags)
            self.assertEqual(json.loads(result.stdout)["responses"][0]["prompt_tokens"], tokens)

    def test_a_prompt_does_not_depend_on_its_neighbours(self):
        alone = self.responses("-p", "first", "-n", "6", "--ignore-eos")
        together = self.responses("-p", "first", "-p", "a longer second", "-n", "6", "--ignore-eos")
        self.assertEqual(alone[0]["tokens"], together[0]["tokens"])

    def test_the_same_prompt_twice_gives_two_texts(self):
        first, second = self.responses("-p", "x", "-p", "x", "-n", "12", "--temp", "2", "--ignore-eos")
        self.assertNotEqual(first["tokens"], second["tokens"])

    def test_a_file_holds_one_prompt_a_line(self):
        with open(self.path("prompts.txt"), "wb") as file:
            file.write(b"one\r\n\ntwo")
        responses = self.responses("-p", "zero", "-f", self.path("prompts.txt"), "-n", "1")
        self.assertEqual([r["prompt"] for r in responses], ["zero", "one", "two"])

    def test_bytes_that_are_not_utf8_become_replacement_characters(self):
        result = self.generate("-f", "-", "-n", "1", stdin=b"a\xff\xfeb\xe2\x82")
        self.assertTrue(result.stdout.startswith(b"a" + REPLACEMENT * 2 + b"b" + REPLACEMENT))
        self.assertEqual(self.responses("-p", b"a\xffb", "-n", "1")[0]["prompt"], "a\ufffdb")

    def test_answers_are_what_streams_of_their_own_give_and_read_the_prompt_once(self):
        asked = ["-n", "12", "--temp", "2", "--ignore-eos"]
        prompt = "x" * 200
        answers = self.responses("-p", prompt, "-N", "3", *asked)
        self.assertEqual([a["answer"] for a in answers], [0, 1, 2])
        for answer in answers:
            schema.check(answer, schema.load("response.schema.json"))
        # Repeated prompts use different random streams, too.
        repeated = self.responses(*["-p", prompt] * 3, *asked)
        self.assertEqual([a["tokens"] for a in answers], [r["tokens"] for r in repeated])
        self.assertEqual(len({str(a["tokens"]) for a in answers}), 3)
        self.assertEqual([a["cached_tokens"] for a in answers], [0, 192, 192])
        self.assertNotIn("answer", repeated[0])

    def test_answers_to_several_prompts_are_printed_in_order_and_said_apart(self):
        result = self.generate("-p", "one", "-p", "two", "--answers", "2", "-n", "3", "--ignore-eos")
        heads = [b"==> %d of 2, answer %d of 2 <==\n%s" % (p, a, text) for p, text in [(1, b"one"), (2, b"two")] for a in [1, 2]]
        places = [result.stdout.index(head) for head in heads]
        self.assertEqual(places, sorted(places))
        self.assertIn(b"4 answers to 2 prompts", result.stderr)
        self.assertIn(b"==> answer 2 of 2 <==", self.generate("-p", "one", "-N", "2", "-n", "1").stdout)

    def test_answers_to_a_file_are_lines_with_their_numbers(self):
        lines = self.generate("--json", "-f", "-", "-N", "2", "-n", "3", stdin=b"one\ntwo\n").stdout.splitlines()
        found = sorted((line["index"], line["answer"], line["prompt"]) for line in map(json.loads, lines))
        self.assertEqual(found, [(0, 0, "one"), (0, 1, "one"), (1, 0, "two"), (1, 1, "two")])

    def test_token_ids_are_a_prompt_like_its_text(self):
        asked = ["-n", "6", "--ignore-eos"]
        by_text = self.responses("-p", "abc", *asked)[0]
        response, other = self.responses("--prompt-ids", "97,98,99", "-p", "abc", *asked)
        self.assertEqual((response["prompt"], response["tokens"]), ("abc", by_text["tokens"]))
        self.assertEqual((other["prompt"], other["prompt_tokens"]), ("abc", 3))
        self.assertTrue(self.generate("--prompt-ids", "97,98", "-n", "1").stdout.startswith(b"ab"))
        # Token 257 is the control token <|im_start|>.
        for flags, prompt in [([], "a"), (["--special"], "<|im_start|>a")]:
            found = self.responses("--prompt-ids", "257,97", "-n", "1", *flags)[0]
            self.assertEqual((found["prompt"], found["prompt_tokens"]), (prompt, 2))
        self.check_fails(
            2, "prompt_ids[1]: token 259; limit: 0 to 258 (the vocabulary)",
            arguments=["generate", *self.with_model, "--prompt-ids", "5,259"],
        )  # fmt: skip

    def test_an_answer_ends_at_its_deadline(self):
        # The first deadline has passed before any token. Without a deadline, the answers would take an hour.
        for deadline in ["0.000001", "0.2"]:
            result = self.generate("-p", "x", "-p", "y", "-c", "200000", "--ignore-eos", "--json", "--deadline", deadline)
            for response in json.loads(result.stdout)["responses"]:
                self.assertEqual(response["finish_reason"], "deadline")
                schema.check(response, schema.load("response.schema.json"))
        text = self.generate("-p", "x", "-p", "y", "-c", "200000", "--ignore-eos", "--deadline", "0.000001")
        self.assertEqual(text.stdout, b"==> 1 of 2 <==\nx\n\n==> 2 of 2 <==\ny\n")
        one = self.generate("-p", "x", "-n", "3", "--ignore-eos", "--deadline", "3600", "--json")
        self.assertEqual(json.loads(one.stdout)["responses"][0]["finish_reason"], "length")

    def test_a_stop_string_ends_the_text(self):
        arguments = ["-p", "x", "-n", "40", "--ignore-eos", "--temp", "0"]
        text = self.responses(*arguments)[0]["text"]
        stop = next(c for c in text if c.isalnum())
        response = self.responses(*arguments, "--stop", "never this", "--stop", stop)[0]
        self.assertEqual(response["finish_reason"], "stop")
        self.assertEqual(response["text"], text[: text.index(stop)])

    def test_no_tokens_may_be_asked_for(self):
        response = self.responses("-p", "x", "-n", "0")[0]
        self.assertEqual((response["text"], response["finish_reason"]), ("", "length"))

    def test_the_context_bounds_the_text(self):
        response = self.responses("-p", "12345678", "-c", "16", "--ignore-eos")[0]
        self.assertEqual((len(response["tokens"]), response["finish_reason"]), (8, "length"))

    def test_the_size_of_the_kv_cache_does_not_show(self):
        asked = ["-p", "x", "-p", "y", "-n", "6", "-c", "256", "--ignore-eos"]
        expected = [r["tokens"] for r in self.responses(*asked)]
        for size in ["200K", "64M", "5%"]:
            found = [r["tokens"] for r in self.responses(*asked, "--kv-cache-memory", size)]
            self.assertEqual(found, expected, msg=size)

    def test_the_last_tokens_can_be_traced(self):
        path = os.path.join(self.directory.name, "last.json.gz")
        arguments = ["-p", "x", "-n", "12", "--ignore-eos"]
        traced = self.responses(*arguments, "--trace", path, "--trace-tokens", "5")
        self.assertEqual(traced[0]["tokens"], self.responses(*arguments)[0]["tokens"])
        report = json.loads(run("profile", path, "--json").stdout)
        self.assertEqual(report["tokens"], 5)

    def test_trace_tokens_need_a_trace(self):
        self.check_fails(2, "--trace-tokens: needs --trace FILE", arguments=["generate", "-p", "x", "--trace-tokens", "4"])

    def test_a_trace_that_cannot_be_written_is_said(self):
        result = run("generate", *self.with_model, "-p", "x", "-n", "2", "--trace", "/nowhere/t.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"/nowhere/t.json: cannot be written: No such file or directory", result.stderr)

    def test_placement_does_not_change_the_text(self):
        arguments = ["-p", "x", "-n", "6", "--ignore-eos"]
        expected = self.responses(*arguments)[0]["tokens"]
        for extra in [["--sms", "1"], ["--sms", "7", "--policy", "zig-zag"], ["--queue", "global"], ["--threads", "1"]]:
            self.assertEqual(self.responses(*arguments, *extra)[0]["tokens"], expected, msg=extra)


class BundledModel(unittest.TestCase):
    def test_an_answer_to_a_file_is_printed_while_others_are_generated(self):
        # After the long prompt only a few tokens fit into the context; the short prompt's answer takes seconds.
        prompts = b"Once\n" + b"Once upon a time there was a fox. " * 203 + b"\n"
        process = start(
            "generate", "-f", "-", "--json", "-s", "1", "--ignore-eos", "-c", "2048",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdin.write(prompts)
        process.stdin.close()
        first = json.loads(process.stdout.readline())
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        second = json.loads(process.stdout.readline())
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=PATIENCE), 130)
        self.assertEqual((first["index"], first["finish_reason"]), (1, "length"))
        self.assertEqual((second["index"], second["finish_reason"]), (0, "cancelled"))

    def test_it_runs_without_a_model_flag(self):
        result = run("generate", "-p", "Once upon a time", "-n", "8", "-s", "1")
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertTrue(result.stdout.startswith(b"Once upon a time"))


if __name__ == "__main__":
    unittest.main()
