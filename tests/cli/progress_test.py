"""The progress bar is shown only on a terminal."""

import subprocess
import unittest

from harness import Case, run

BAR = b"weights    ["
ERASE = b"\r\x1b[K"


class Progress(Case):
    def arguments(self, *more):
        return ["generate", *self.with_model, "-p", "x", "-n", "2", "-s", "1", *more]

    def test_a_terminal_shows_a_bar_and_erases_it_before_the_text(self):
        terminal = self.terminal(*self.arguments())
        self.assertEqual(terminal.finish(), 0)
        self.assertIn(BAR, terminal.screen)
        after_bar = terminal.screen[terminal.screen.rindex(BAR) :]
        self.assertIn(ERASE, after_bar)
        self.assertTrue(after_bar[after_bar.index(ERASE) + len(ERASE) :].startswith(b"x"))

    def test_a_pipe_sees_no_bar(self):
        result = run(*self.arguments())
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertNotIn(b"\x1b", result.stderr + result.stdout)
        self.assertNotIn(BAR, result.stderr)

    def test_text_in_a_pipe_is_clean_while_a_terminal_shows_the_bar(self):
        terminal = self.terminal(*self.arguments(), stdout=subprocess.PIPE)
        out = terminal.process.stdout.read()
        terminal.process.stdout.close()
        self.assertEqual(terminal.finish(), 0)
        self.assertIn(BAR, terminal.screen)
        self.assertNotIn(b"\x1b[K", out)

    def test_it_can_be_forced_and_forbidden(self):
        self.assertIn(BAR, run(*self.arguments("--progress", "on")).stderr)
        terminal = self.terminal(*self.arguments("--progress", "off"))
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn(BAR, terminal.screen)

    def test_a_dumb_terminal_sees_no_bar(self):
        terminal = self.terminal(*self.arguments(), env={"TERM": "dumb"})
        self.assertEqual(terminal.finish(), 0)
        self.assertNotIn(BAR, terminal.screen)


if __name__ == "__main__":
    unittest.main()
