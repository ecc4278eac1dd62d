"""Failures outside the server: a client that is killed, a full KV cache, a client that does not read."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from serving import Case
from harness import PATIENCE, run

STORY = "Once upon a time"
SEND_BUFFER = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])  # the system's limit of a socket's send buffer
SLOW = ("--interleaving", "1", "--sms", "64")  # so slow that no answer ends by itself

# A client in a separate process: prints a line when its stream has begun, then reads the rest.
CLIENT = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("POST", "/v1/completions", sys.argv[2])
answer = connection.getresponse()
answer.readline()
print("begun", flush=True)
answer.read()
"""


class Chaos(Case):
    def wait_until_all_is_free(self, server):
        end = time.monotonic() + PATIENCE
        while server.metric("kv_cache_usage_perc") + server.metric("num_requests_running") > 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_client_that_is_killed_frees_what_it_held_within_about_a_second(self):
        server = self.serve(*SLOW)
        body = json.dumps({"prompt": STORY, "n": 4, "max_tokens": 1900, "ignore_eos": True, "stream": True})
        client = subprocess.Popen([sys.executable, "-c", CLIENT, str(server.port), body], stdout=subprocess.PIPE)
        self.addCleanup(client.stdout.close)
        self.assertEqual(client.stdout.readline(), b"begun\n")
        self.assertGreater(server.metric("kv_cache_usage_perc"), 0)
        client.send_signal(signal.SIGKILL)
        begin = time.monotonic()
        client.wait()
        self.wait_until_all_is_free(server)
        print(f"[ figures  ] freed {time.monotonic() - begin:.3f} s after the client was killed")
        self.assertIn("reason=gone", server.wait_for("request id="))
        self.assertEqual(server.metric("request_success_total", finished_reason="gone"), 1)

    def test_with_a_kv_cache_of_one_context_all_of_many_streams_get_their_own_answers(self):
        context, streams = 256, 16
        bytes_a_token = json.loads(run("info", "--json").stdout)["model"]["kv_bytes_per_token"]
        server = self.serve("-c", str(context), "--kv-cache-memory", str(context * bytes_a_token), "--threads", "1")
        bodies = [{"prompt": f"{STORY}, number {i}", "temperature": 0, "max_tokens": 140, "ignore_eos": True} for i in range(streams)]
        alone = [server.post("/v1/completions", body)[1]["choices"][0]["text"] for body in bodies]
        self.wait_until_all_is_free(server)
        self.assertEqual(server.metric("num_preemptions_total"), 0, "a single one fits")

        def text_of(body):
            return "".join(event["choices"][0]["text"] for event in server.stream("/v1/completions", body))

        with ThreadPoolExecutor(streams) as pool:
            self.assertEqual(list(pool.map(text_of, bodies)), alone)
        self.wait_until_all_is_free(server)
        self.assertGreater(server.metric("num_preemptions_total"), 0)


def queued_bytes(local, remote):
    """Bytes in the system's buffers of the connection from port `local` to port `remote`: (to send, to read)."""
    with open("/proc/net/tcp") as table:
        for line in table:
            if found := re.match(rf" *\d+: \w+:{local:04X} \w+:{remote:04X} \w+ (\w+):(\w+)", line):
                return int(found[1], 16), int(found[2], 16)
    raise AssertionError(f"no connection from port {local} to port {remote}")


class SlowReader(Case):
    """A client that requests several MB and does not read them."""

    FLAGS = ("--threads", "1")
    ASKED = {"messages": [{"role": "user", "content": "Tell me a story."}], "n": 16, "max_tokens": 170, "ignore_eos": True,
             "logprobs": True, "top_logprobs": 20, "stream": True}  # fmt: skip
    TINY = 4096  # bytes; the system doubles it

    def ask_and_leave_it(self):
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.settimeout(PATIENCE)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.TINY)  # before connect(), which fixes the window
        slow.connect(("127.0.0.1", self.server.port))
        body = json.dumps(self.ASKED).encode()
        slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return slow

    def wait_for_the_answer_to_be_made(self):
        end = time.monotonic() + PATIENCE
        while self.server.metric("request_success_total", finished_reason="length") < self.ended_before + 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_it_does_not_slow_others_and_gets_all_of_its_answer_when_it_reads(self):
        expected = self.server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 20})[1]["choices"]
        self.ended_before = self.server.metric("request_success_total", finished_reason="length")
        slow = self.ask_and_leave_it()
        self.wait_for_the_answer_to_be_made()  # although its client does not read
        for _ in range(5):
            answer = self.server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 20})[1]
            self.assertEqual(answer["choices"], expected)
        unsent, _ = queued_bytes(self.server.port, slow.getsockname()[1])
        _, unread = queued_bytes(slow.getsockname()[1], self.server.port)
        self.assertGreater(unsent, 0, "the socket is full")
        received = b""
        while b"data: [DONE]\n\n" not in received[-200:]:
            block = slow.recv(1 << 20)
            self.assertNotEqual(block, b"")
            received += block
        print(f"[ figures  ] {len(received)} bytes, of which the system held {unsent + unread} and the server the rest")
        if SEND_BUFFER < len(received):  # true with the system's default buffer size
            self.assertGreater(len(received), unsent + unread, "some had to wait in the server")
        ends = received.count(b'"finish_reason":"length"')
        self.assertEqual((received[:13], ends), (b"HTTP/1.1 200 ", self.ASKED["n"]))


if __name__ == "__main__":
    unittest.main()
