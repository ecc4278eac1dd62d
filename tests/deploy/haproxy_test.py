"""Two replicas behind HAProxy, as deploy/haproxy/haproxy.cfg has them. One is killed under load: every request whose answer had
not begun is answered by the other one, and every other one's client sees that its answer is cut."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../server"))

from serving import Case, Server  # noqa: E402
from harness import PATIENCE  # noqa: E402

SKIPPED = 77  # as CMakeLists.txt says
CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy/haproxy/haproxy.cfg"
CLIENTS = 60
TOKENS = 150
BODY = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": TOKENS, "ignore_eos": True}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


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


async def ask(port, body, began=None):
    """(status, body, whether the answer is whole). `began` is called at the first byte of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    payload = json.dumps(body).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(payload))
    writer.write(payload)
    try:
        answer = await reader.read(1)
        if began:
            began()
        answer += await reader.read()
    except ConnectionResetError:
        answer = b""
    writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    whole = rest.endswith(b"0\r\n\r\n") and b"[DONE]" in rest if body.get("stream") else rest.endswith(b"}")
    return status, rest, whole


class HaProxy(Case):
    FLAGS = ("--max-sequences", "4", "--request-log", "none", "-c", "256")

    def setUp(self):
        self.replicas = [self.serve(*self.FLAGS) for _ in range(2)]
        self.balancer = Balancer(self.replicas)
        self.addCleanup(self.balancer.stop)
        self.wait_until_ready(2)

    def wait_until_ready(self, count):
        """Until the balancer knows that so many replicas take requests."""
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
        cut = [answer for answer in answers if answer[0] == 200 and not answer[2]]
        whole = [answer for answer in answers if answer[0] == 200 and answer[2]]
        print(f"of {CLIENTS}: {len(whole)} answered, {len(cut)} cut")
        self.assertEqual(len(whole) + len(cut), CLIENTS, msg={answer[0]: answer[1] for answer in answers})
        self.assertLessEqual(len(cut), 5, "no more than one replica had begun: four sequences and one that was ending")
        for i, (status, body, is_whole) in enumerate(answers):
            if is_whole and i % 2 == 1:
                self.assertEqual(json.loads(body)["choices"][0]["text"], expected)

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
