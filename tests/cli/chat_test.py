"""serval chat, on a terminal and in a pipe."""

import json
import signal
import subprocess
import time
import unittest

import schema
from harness import PATIENCE, Case, run, start

PROMPT = b"> "
CTRL_C, CTRL_D = b"\x03", b"\x04"


class ChatInAPipe(Case):
    def chat(self, stdin, *arguments):
        result = run("chat", *self.with_model, "-s", "1", "-n", "4", "--ignore-eos", *arguments, stdin=stdin)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result

    def answers(self, stdin, *arguments):
        return [json.loads(line) for line in self.chat(stdin, "--json", *arguments).stdout.splitlines()]

    def test_each_line_gets_an_answer_and_no_prompt_is_shown(self):
        result = self.chat(b"hello\n\nagain")
        self.assertNotIn(PROMPT, result.stderr)
        self.assertGreaterEqual(result.stdout.count(b"\n"), 2)

    def test_json_is_one_line_an_answer(self):
        answers = self.answers(b"hello\nagain\n")
        self.assertEqual([a["prompt"] for a in answers], ["hello", "again"])
        for answer in answers:
            schema.check(answer, schema.load("response.schema.json"))

    def test_the_conversation_is_remembered_until_reset(self):
        first, second = self.answers(b"hello\nhello\n")
        self.assertGreater(second["prompt_tokens"], first["prompt_tokens"])
        first, second = self.answers(b"hello\n/reset\nhello\n")
        self.assertEqual(second["tokens"], first["tokens"])

    def test_a_system_message_is_part_of_the_prompt_and_survives_reset(self):
        plain = self.answers(b"hello\n")[0]["prompt_tokens"]
        with_flag = self.answers(b"hello\n/reset\nhello\n", "--system", "Be brief.")
        self.assertGreater(with_flag[0]["prompt_tokens"], plain)
        self.assertEqual(with_flag[1]["prompt_tokens"], with_flag[0]["prompt_tokens"])
        with_command = self.answers(b"/system Be brief.\nhello\n/system\nhello\n")
        self.assertEqual([a["prompt_tokens"] for a in with_command], [with_flag[0]["prompt_tokens"], plain])

    def test_ranks_share_the_model(self):
        answers = self.answers(b"hello\nagain\n", "--gpus", "2")
        self.assertEqual([len(a["tokens"]) for a in answers], [4, 4])

    def test_help_goes_to_stderr(self):
        result = self.chat(b"/help\n/nonsense\n")
        self.assertEqual(result.stdout, b"")
        self.assertIn(b"/reset", result.stderr)
        self.assertIn(b"/nonsense", result.stderr)

    def test_exit_leaves(self):
        self.assertEqual(len(self.answers(b"hello\n/exit\nagain\n")), 1)

    def test_bytes_that_are_not_utf8_become_replacement_characters(self):
        self.assertEqual(self.answers(b"a\xffb\n")[0]["prompt"], "a\ufffdb")

    def test_a_conversation_that_outgrows_the_context_is_an_error(self):
        result = run("chat", *self.with_model, "-c", "64", stdin=b"x" * 100 + b"\n")
        self.assertEqual(result.returncode, 2, msg=result.stderr)
        self.assertIn(b"64", result.stderr)

    def test_a_template_needs_a_tokenizer(self):
        preset = ["-m", "llama-3.2-1b", "--random-weights", "1"]
        self.check_fails(2, "tokenizer", arguments=["chat", *preset, "--chat-template", "chatml"])

    def test_sigint_while_waiting_ends_with_130_and_sigterm_with_143(self):
        for number, code in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
            process = start(
                "chat", *self.with_model, "-n", "2", "--ignore-eos",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            process.stdin.write(b"hello\n")
            process.stdin.flush()
            process.stdout.readline()
            # A signal that arrives before the answer has ended only ends the answer, so send more than one.
            while process.poll() is None:
                process.send_signal(number)
                time.sleep(0.5)
            _, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, code, msg=err)


class ChatWithTheBundledModel(unittest.TestCase):
    """A turn must not prefill earlier turns again: this decides the time to its first token (docs/cli.md)."""

    STORY = "Once upon a time there was a little fox who lived by the river. She went out to look for berries. "
    QUESTION = "Now tell me a story about an owl."

    def answers(self, lines, *arguments):
        result = run("chat", "-s", "1", "--json", *arguments, stdin="\n".join(lines).encode())
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def read(self, answer):
        return answer["prompt_tokens"] - answer["cached_tokens"]

    def test_a_long_history_is_not_read_again(self):
        lines = ["Hello.", self.QUESTION, "/reset", self.STORY * 60, self.QUESTION]
        _, short, _, long = self.answers(lines, "-n", "1", "--ignore-eos")
        self.assertLess(short["prompt_tokens"], 50)
        self.assertGreater(long["prompt_tokens"], 1400)
        self.assertEqual(self.read(long), self.read(short))
        self.assertLess(self.read(long), 30)

    def test_an_answer_is_not_read_again_whatever_its_tokens(self):
        # The biased answer has only the tokens "t" and "h". Encoding its text again would give the token "th".
        letters = [run("tokenize", "-p", letter).stdout.split()[-1].decode() for letter in "th"]
        biases = [word for letter in letters for word in ["-l", f"{letter}+100"]]
        answers = self.answers([self.QUESTION] * 3, "-n", "40", "--temp", "100", *biases)
        self.assertIn("th", answers[0]["text"])
        for last, answer in zip(answers, answers[1:]):
            self.assertEqual(answer["cached_tokens"], last["prompt_tokens"] + len(last["tokens"]) - 1)


class ChatOnATerminal(Case):
    def chat(self, *arguments, **options):
        return self.terminal("chat", *self.with_model, "-s", "1", "--ignore-eos", *arguments, **options)

    def test_ctrl_d_leaves(self):
        chat = self.chat()
        chat.wait_for(PROMPT)
        chat.type(CTRL_D)
        self.assertEqual(chat.finish(), 0)

    def test_ctrl_c_at_an_empty_prompt_leaves(self):
        chat = self.chat()
        chat.wait_for(PROMPT)
        chat.type(CTRL_C)
        self.assertEqual(chat.finish(), 0)

    def test_ctrl_c_forgets_what_was_typed(self):
        chat = self.chat("-n", "2", "--json")
        at = chat.wait_for(PROMPT)
        chat.type(b"half a li")
        at = chat.wait_for(b"half a li", at)
        chat.type(CTRL_C)
        at = chat.wait_for(PROMPT, at)
        chat.type(b"whole\n")
        at = chat.wait_for(b'"prompt":"whole"', at)
        chat.wait_for(PROMPT, at)
        chat.type(b"/exit\n")
        self.assertEqual(chat.finish(), 0)

    def ask_at_length(self, chat):
        """Requests an endless answer; returns when it has begun."""
        at = chat.wait_for(PROMPT)
        chat.type(b"hello\n")
        at = chat.wait_for(b"hello\r\n", at)
        return chat.wait_for_more(at)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        chat = self.chat("-c", "100000")
        at = self.ask_at_length(chat)
        chat.type(CTRL_C)
        at = chat.wait_for(b"\n" + PROMPT, at)
        chat.type(b"/help\n")
        at = chat.wait_for(b"forget the conversation", at)
        chat.wait_for(b"\n" + PROMPT, at)
        chat.type(CTRL_D)
        self.assertEqual(chat.finish(), 0)

    def test_a_full_context_is_said_and_reset_begins_anew(self):
        chat = self.chat("-c", "64", "--log-level", "info")
        at = chat.wait_for(PROMPT)
        chat.type(b"hello\n")  # the answer fills the context
        at = chat.wait_for(b"the context is full; /reset begins a new conversation", at)
        at = chat.wait_for(PROMPT, at)
        chat.type(b"again\n")
        at = chat.wait_for(b"limit: 63", at)
        at = chat.wait_for(b"; /reset begins a new conversation", at)
        at = chat.wait_for(PROMPT, at)
        chat.type(b"/reset\n")
        at = chat.wait_for(PROMPT, at)
        chat.type(b"hello\n")
        at = chat.wait_for(b"the context is full; /reset begins a new conversation", at)
        chat.wait_for(PROMPT, at)
        chat.type(CTRL_D)
        self.assertEqual(chat.finish(), 0)

    def test_sigterm_ends_an_answer_and_the_program(self):
        chat = self.chat("-c", "100000")
        self.ask_at_length(chat)
        chat.process.terminate()
        self.assertEqual(chat.finish(), 143)

    def test_answers_alone_go_to_stdout(self):
        chat = self.chat("-n", "2", "--json", stdout=subprocess.PIPE)
        chat.wait_for(PROMPT)
        chat.type(b"hello\n")
        line = chat.process.stdout.readline()
        self.assertEqual(json.loads(line)["prompt"], "hello")
        chat.type(CTRL_D)
        self.assertEqual(chat.finish(), 0)
        chat.process.stdout.close()


if __name__ == "__main__":
    unittest.main()
