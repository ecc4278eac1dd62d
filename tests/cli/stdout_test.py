"""stdout that is a closed pipe, a file on a full disk, or closed."""

import os
import subprocess
import unittest

from harness import PATIENCE, Case, default_signals, environment, run, start, PROGRAM


class Stdout(Case):
    def endless(self, **options):
        return start("generate", *self.with_model, "-p", "x", "-c", "100000", "--ignore-eos", **options)

    def test_a_reader_that_leaves_ends_the_program_quietly(self):
        process = self.endless(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(20)
        process.stdout.close()
        message = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(timeout=PATIENCE), message), (141, b""))

    def test_text_comes_while_it_is_produced(self):
        process = self.endless(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.read(1), b"x")
        self.assertTrue(process.stdout.read(10))
        self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        process.stdout.close()

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_a_full_disk_is_one_line_and_exit_1(self):
        for arguments in [["generate", *self.with_model, "-p", "x", "-n", "2"], ["--help"], ["generate", "--help"]]:
            with open("/dev/full", "wb") as full:
                process = start(*arguments, stdout=full, stderr=subprocess.PIPE)
                _, message = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 1, msg=message)
            self.assertEqual(message.count(b"\n"), 1, msg=message)
            self.assertIn(b"stdout: No space left on device", message)

    def test_a_closed_stdout_is_an_error(self):
        def close_stdout():
            default_signals()
            os.close(1)

        process = subprocess.Popen(
            [PROGRAM, "--version"], env=environment(), preexec_fn=close_stdout, stderr=subprocess.PIPE
        )
        _, message = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1, msg=message)
        self.assertIn(b"stdout: ", message)

    def test_a_closed_stderr_does_not_matter(self):
        def close_stderr():
            default_signals()
            os.close(2)

        process = subprocess.Popen(
            [PROGRAM, "generate", *self.with_model, "-p", "x", "-n", "1"],
            env=environment(),
            preexec_fn=close_stderr,
            stdout=subprocess.PIPE,
        )
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        self.assertTrue(out.startswith(b"x"))


if __name__ == "__main__":
    unittest.main()
