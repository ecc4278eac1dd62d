"""Two replicas behind HAProxy with deploy/haproxy/haproxy.cfg. One is killed under load: the other one answers every
request whose answer had not begun, and the clients of the other requests can see that their answers are incomplete."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../server"))

from serving import Case  # noqa: E402
from harness import PATIENCE  # noqa: E402

from load import BODY, ask, free_port, outcome  # noqa: E402

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy/haproxy/haproxy.cfg"
CLIENTS = 60
MOST_BEGUN = 5  # answers in progress on one replica: its 4 sequences, and one whose end is still being sent


class Balancer:
    def __init__(self, replicas):
        self.port = free_port()
        text = CONFIGURATION.read_text()
        for written, port in zip((8000, 8081, 8082), (self.port, *(replica.port for replica in replicas))):
            assert f"127.0.0.1:{written}" in text
            text = text.replace(f"127.0.0.1:{written}", f"127.0.0.1:{port}")
        self.file = tempfile.NamedTemporaryFile("w", suffix=".cfg")
        self.file.write(text)
        self.file.flush()
        subprocess.run(["haproxy", "-c", "-f", self.file.name], check=True, capture_output=True)
        self.process = subprocess.Popen(["haproxy", "-f", self.file.name, "-db"], stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.file.close()


class HaProxy(Case):
    # On a busy machine, draining may take longer than the default of 60 s.
    FLAGS = ("--max-sequences", "4", "--request-log", "none", "-c", "256", "--drain-timeout", "600")

    def setUp(self):
        self.replicas = [self.serve(*self.FLAGS) for _ in range(2)]
        self.balancer = Balancer(self.replicas)
        self.addCleanup(self.balancer.stop)
        self.wait_until_ready(2)

    def wait_until_ready(self, count):
        """Waits until the balancer sends requests to `count` replicas."""
        end = time.monotonic() + PATIENCE
        served = set()
        while len(served) < count and time.monotonic() < end:
            before = [self.generated(replica) for replica in self.replicas]
            try:
                asyncio.run(ask(self.balancer.port, {**BODY, "max_tokens": 1}))
            except ConnectionRefusedError:
                pass
            after = [self.generated(replica) for replica in self.replicas]
            served |= {i for i in range(2) if after[i] > before[i]}
        self.assertEqual(len(served), count)

    def generated(self, replica):
        text = replica.ask("GET", "/metrics")[2].decode()
        line = next(line for line in text.splitlines() if line.startswith("serval:generation_tokens_total{"))
        return float(line.split()[-1])

    def test_a_replica_that_dies_costs_only_answers_that_had_begun(self):
        expected = self.server.post("/v1/completions", BODY)[1]["choices"][0]["text"]
        begun = 0

        def one_began():
            nonlocal begun
            begun += 1
            if begun == 6:
                self.replicas[0].process.kill()

        async def load():
            requests = (ask(self.balancer.port, {**BODY, "stream": i % 2 == 0}, one_began) for i in range(CLIENTS))
            return await asyncio.wait_for(asyncio.gather(*requests), PATIENCE)

        answers = asyncio.run(load())
        whole, cut = outcome(answers, expected)
        print(f"of {CLIENTS}: {whole} answered, {cut} cut")
        self.assertEqual(whole + cut, CLIENTS, msg={answer[0]: answer[1] for answer in answers})
        self.assertLessEqual(cut, MOST_BEGUN)

    def test_a_replica_that_drains_loses_nothing(self):
        begun = 0

        def one_began():
            nonlocal begun
            begun += 1
            if begun == 6:
                self.replicas[0].signal(signal.SIGTERM)

        async def load():
            requests = (ask(self.balancer.port, {**BODY, "stream": True}, one_began) for _ in range(CLIENTS))
            return await asyncio.wait_for(asyncio.gather(*requests), PATIENCE)

        answers = asyncio.run(load())
        self.assertEqual([(status, whole) for status, _, whole in answers], [(200, True)] * CLIENTS)
        self.assertEqual(self.replicas[0].wait(), 0)

    def test_without_a_replica_the_error_is_openais(self):
        for replica in self.replicas:
            replica.process.kill()
            replica.wait()
        status, body, _ = asyncio.run(ask(self.balancer.port, BODY))
        self.assertEqual((status, json.loads(body)["error"]["type"]), (503, "server_error"))


if __name__ == "__main__":
    if shutil.which("haproxy") is None:
        print("SKIPPED: HAProxy is not on this machine")
        sys.exit(SKIPPED)
    unittest.main()
