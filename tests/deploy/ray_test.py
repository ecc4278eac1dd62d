"""Two replicas in a local Ray cluster, started by deploy/ray/serval_app.py. One is killed under load: the other one
answers every request whose answer had not begun, and streams that had begun end with an error.

`make test-deploy` installs Ray. SERVAL_TEST_RAY names another Python that has it."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../server"))

from serving import Case  # noqa: E402
from harness import PROGRAM, environment  # noqa: E402

from load import BODY, ask, free_port, outcome  # noqa: E402

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
PYTHON = os.environ.get("SERVAL_TEST_RAY", "build/ray/bin/python")
APPLICATION = Path(__file__).resolve().parents[2] / "deploy/ray/serval_app.py"
PATIENCE = 400  # seconds; a cluster's start takes less unless it hangs
CLIENTS = 40
MOST_BEGUN = 5
FLAGS = ("--max-sequences", "4", "--request-log", "none", "-c", "256", "--threads", "1")
# Ray's workers run with nice 15 by default. On a busy machine they would not start in time.
RAY_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


def replicas_of(session):
    """Returns the ids of the session's `serval serve` processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"serve"] and f"SERVAL_TEST_SESSION={session}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


class Ray(Case):
    FLAGS = FLAGS

    def setUp(self):
        self.port = free_port()
        self.session = str(os.getpid())
        self.log = tempfile.TemporaryFile()
        command = [PYTHON, str(APPLICATION), "--port", str(self.port), "--gpus", "0", "--program", os.path.abspath(PROGRAM)]
        self.driver = subprocess.Popen(
            [*command, "--", *FLAGS], stdout=self.log, stderr=self.log, start_new_session=True,
            env=environment({"SERVAL_TEST_SESSION": self.session, **RAY_SETTINGS}),
        )  # fmt: skip
        self.addCleanup(self.stop)
        self.wait_for_replicas(2)

    def stop(self):
        self.driver.send_signal(signal.SIGINT)
        try:
            self.driver.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()
        self.log.close()

    def is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def wait_for_replicas(self, count):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.driver.poll() is None:
            if len(replicas_of(self.session)) == count and self.is_ready():
                return
            time.sleep(0.5)
        self.log.seek(0)
        self.fail(f"{count} replicas did not start: {self.log.read()[-3000:]!r}")

    def test_a_replica_that_dies_costs_only_answers_that_had_begun(self):
        expected = self.server.post("/v1/completions", BODY)[1]["choices"][0]["text"]
        status, body, _ = asyncio.run(ask(self.port, BODY))
        self.assertEqual(status, 200)
        self.assertIn(json.dumps(expected).encode()[1:-1], body)
        begun = 0

        def one_began():
            nonlocal begun
            begun += 1
            if begun == 6:
                os.kill(replicas_of(self.session)[0], signal.SIGKILL)

        async def load():
            requests = (ask(self.port, {**BODY, "stream": True}, one_began) for _ in range(CLIENTS))
            return await asyncio.wait_for(asyncio.gather(*requests), PATIENCE)

        answers = asyncio.run(load())
        whole, cut = outcome(answers, expected)
        print(f"of {CLIENTS}: {whole} answered, {cut} cut")
        self.assertEqual(whole + cut, CLIENTS, msg=[answer[:2] for answer in answers if answer[0] != 200][:3])
        self.assertLessEqual(cut, MOST_BEGUN)
        for _, body, is_whole in answers:
            if not is_whole:
                self.assertIn(b"replica_failed", body)
        self.wait_for_replicas(2)


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        print("SKIPPED: Ray is not on this machine; make test-deploy installs it")
        sys.exit(SKIPPED)
    unittest.main()
