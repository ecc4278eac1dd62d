"""SIGINT and SIGTERM: the exit status that shells expect, and the output so far is kept."""

import json
import os
import signal
import subprocess
import unittest

from harness import PATIENCE, Case, run, start


class Signals(Case):
    def endless(self, *arguments):
        return start(
            "generate", *self.with_model, "-p", "x", "-c", "100000", "--ignore-eos", *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def test_ctrl_c_ends_generate_with_130(self):
        process = self.endless()
        process.stdout.read(2)  # generation has begun
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, msg=err)
        self.assertTrue(out.endswith(b"\n"))
        self.assertIn(b"ended by cancelled", err)

    def test_sigterm_ends_generate_with_143(self):
        process = self.endless()
        process.stdout.read(2)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 143, msg=err)

    def test_a_batch_ends_with_every_text_so_far(self):
        process = self.endless("-p", "y", "-p", "z")
        process.stdout.read(len("==> 1 of 3 <==\nx") + 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, msg=err)
        self.assertIn(b"==> 3 of 3 <==\nz", out)

    def test_json_is_whole_although_interrupted(self):
        process = self.endless("--json", "--progress", "on")
        process.stderr.read(1)  # loading has begun
        # Waits for generation: a signal during loading would end the program immediately, without output.
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, msg=err)
        if out:
            self.assertEqual(json.loads(out)["responses"][0]["finish_reason"], "cancelled")

    def test_ctrl_c_ends_bench_with_130(self):
        process = start(
            "bench", *self.with_model, "-p", "0", "-n", "100000", "-r", "100",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdout.read(2)  # the table has begun
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, msg=err)

    def test_a_signal_that_the_caller_ignores_stays_ignored(self):
        def ignore_interrupts():
            signal.signal(signal.SIGINT, signal.SIG_IGN)

        arguments = ["generate", *self.with_model, "-p", "x", "-n", "200", "--ignore-eos"]
        process = subprocess.Popen(
            [os.environ["SERVAL_TEST_PROGRAM"], *arguments],
            preexec_fn=ignore_interrupts,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.read(2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, msg=err)

    def test_a_run_without_signals_ends_with_0(self):
        self.assertEqual(run("generate", *self.with_model, "-p", "x", "-n", "1").returncode, 0)


if __name__ == "__main__":
    unittest.main()
