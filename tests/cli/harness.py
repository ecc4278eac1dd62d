"""Runs the executable: in pipes or on a terminal, with a separate environment and temporary files."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest

import tiny_model

PROGRAM = os.environ.get("SERVAL_TEST_PROGRAM", "build/bin/serval")
PATIENCE = 240  # seconds; only a hang takes longer
BACKEND = os.environ.get("SERVAL_TEST_BACKEND", "host")  # works on every machine and prints no notice


def environment(extra=None):
    """Returns the caller's environment without SERVAL_ variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SERVAL_") or k == "SERVAL_ASSETS"}
    return {**kept, "SERVAL_BACKEND": BACKEND, "TERM": "xterm", **(extra or {})}


def default_signals():
    """Restores the default handlers: a background job of a shell ignores SIGINT, and its children inherit this."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def start(*arguments, env=None, **options):
    return subprocess.Popen([PROGRAM, *arguments], env=environment(env), preexec_fn=default_signals, **options)


def run(*arguments, stdin=b"", env=None):
    """Runs to the end. stdout and stderr are bytes."""
    process = start(*arguments, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


class Terminal:
    """Runs the executable on a terminal. Tests type keys and wait for output."""

    def __init__(self, *arguments, env=None, stdin=None, stdout=None):
        """`stdin` and `stdout` may replace the terminal; stderr is always the terminal."""
        self.fd, child = pty.openpty()
        self.screen = b""

        def lead_session():
            default_signals()
            os.setsid()
            fcntl.ioctl(child, termios.TIOCSCTTY, 0)  # so that Ctrl-C becomes SIGINT

        self.process = subprocess.Popen(
            [PROGRAM, *arguments],
            env=environment(env),
            preexec_fn=lead_session,
            stdin=child if stdin is None else stdin,
            stdout=child if stdout is None else stdout,
            stderr=child,
        )
        os.close(child)

    def type(self, text):
        os.write(self.fd, text)

    def _read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return None
        try:
            return os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return b""

    def _wait_until(self, done, wanted):
        end = time.monotonic() + PATIENCE
        while not done():
            chunk = self._read(max(0.0, end - time.monotonic()))
            if not chunk:
                raise AssertionError(f"waited for {wanted}, screen: {self.screen!r}")
            self.screen += chunk

    def wait_for(self, text, after=0):
        """Reads until `text` is in the output from position `after` on; returns the position after it."""
        self._wait_until(lambda: text in self.screen[after:], repr(text))
        return self.screen.index(text, after) + len(text)

    def wait_for_more(self, after):
        """Reads until the output is longer than `after`; returns its length."""
        self._wait_until(lambda: len(self.screen) > after, "anything more")
        return len(self.screen)

    def finish(self):
        """Reads to the end; returns the exit code."""
        end = time.monotonic() + PATIENCE
        while True:
            chunk = self._read(max(0.0, end - time.monotonic()))
            if not chunk:
                break
            self.screen += chunk
        return self.process.wait(timeout=PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)


class Case(unittest.TestCase):
    """A test case with a temporary directory that has a small model with random weights."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="serval-cli-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.model = os.path.join(cls.directory.name, "tiny")
        tiny_model.write(cls.model, weights=False)
        cls.with_model = ("-m", cls.model, "--random-weights", "1")

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def terminal(self, *arguments, **options):
        terminal = Terminal(*arguments, **options)
        self.addCleanup(terminal.close)
        return terminal

    def check_fails(self, code, *needles, arguments, stdin=b"", env=None):
        """Checks the exit code, that stdout is empty, and that stderr has one error line with all `needles`."""
        result = run(*arguments, stdin=stdin, env=env)
        message = result.stderr.decode(errors="replace")
        errors = [line for line in message.splitlines() if line.startswith("serval: error: ")]
        self.assertEqual((result.returncode, len(errors)), (code, 1), msg=message)
        self.assertEqual(result.stdout, b"")
        for needle in needles:
            self.assertIn(needle, errors[0])
        return result
