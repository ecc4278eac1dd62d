"""A thousand concurrent clients: each gets its own answer, and the server's memory does not grow from round to round.

Runs at least three rounds, and rounds for SERVAL_TEST_LOAD_MINUTES minutes. Prints the process's memory each minute."""

import asyncio
import json
import os
import threading
import time
import unittest
from pathlib import Path

from serving import Case
from harness import PATIENCE

CLIENTS = int(os.environ.get("SERVAL_TEST_CLIENTS", "1000"))
PROMPTS = [f"{who} {what}" for who in ["The fox", "The owl", "A bear", "My cat"] for what in ["was", "had", "saw", "ran"]]
TOKENS = 12
MINUTES = float(os.environ.get("SERVAL_TEST_LOAD_MINUTES", "0"))
ROUNDS = 3  # least number of rounds
MORE_BYTES = 4 << 20  # limit of the heap's growth after the first two rounds


def body_of(prompt, stream):
    return {"prompt": prompt, "temperature": 0, "max_tokens": TOKENS, "stream": stream}


async def stream_of(port, prompt):
    """Returns the text of one stream, read until its connection closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(body_of(prompt, True)).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(body) + body)
    answer = await reader.read()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200 ") or b"data: [DONE]" not in answer:
        return answer
    events = [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: {")]
    return "".join(event["choices"][0]["text"] for event in events)


def quantile(counts, share):
    """Estimates a quantile of a histogram {upper bound: values up to it}, as Prometheus' histogram_quantile does."""
    rank, lower, below = share * counts[float("inf")], 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= rank and bound != float("inf"):
            return lower + (bound - lower) * (rank - below) / (count - below)
        if bound != float("inf"):
            lower, below = bound, count
    return lower


class Load(Case):
    def setUp(self):
        limits = ("--max-queue", str(CLIENTS), "--max-sequences", "64", "-c", "128", "--timeout", "0")
        self.server = self.serve(*limits, "--request-log", "none")

    def expect(self):
        def alone(prompt):
            return self.server.post("/v1/completions", body_of(prompt, False))[1]["choices"][0]["text"]

        return {prompt: alone(prompt) for prompt in PROMPTS}

    def round(self, expected, clients):
        prompts = [PROMPTS[i % len(PROMPTS)] for i in range(clients)]

        async def all_streams():
            return await asyncio.wait_for(
                asyncio.gather(*(stream_of(self.server.port, prompt) for prompt in prompts)), PATIENCE
            )

        texts = asyncio.run(all_streams())
        wrong = [(prompt, text) for prompt, text in zip(prompts, texts) if text != expected[prompt]]
        self.assertEqual(wrong, [])

    def resident_bytes(self):
        pages = Path(f"/proc/{self.server.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def test_a_thousand_streams_at_once_get_their_own_answers(self):
        expected = self.expect()
        before = self.server.buckets("inter_token_latency_seconds")
        self.round(expected, CLIENTS)
        after = self.server.buckets("inter_token_latency_seconds")
        gaps = {bound: after[bound] - before[bound] for bound in after}
        self.assertEqual(gaps[float("inf")], CLIENTS * (TOKENS - 1))
        shown = ", ".join(f"p{100 * share:g} {1e3 * quantile(gaps, share):.0f}" for share in (0.5, 0.9, 0.99))
        print(f"[ figures  ] ms between two tokens of {CLIENTS} streams: {shown}")
        self.ends_well(self.server)

    def test_memory_stays_as_it_is(self):
        expected = self.expect()
        clients = CLIENTS if MINUTES else CLIENTS // 5
        for _ in range(2):  # lets the heap grow to the size that so many connections need
            self.round(expected, clients)
        before = self.resident_bytes()
        begin, rounds, ended = time.monotonic(), 0, threading.Event()

        def print_each_minute():
            minute = 0
            while not ended.wait(begin + 60 * minute - time.monotonic()):
                print(f"minute {minute}: {self.resident_bytes() / 1e6:.1f} MB, {rounds * clients} streams", flush=True)
                minute += 1

        printer = threading.Thread(target=print_each_minute)
        printer.start()
        try:
            while rounds < ROUNDS or time.monotonic() - begin < 60 * MINUTES:
                self.round(expected, clients)
                rounds += 1
        finally:
            ended.set()
            printer.join()
        self.assertLess(self.resident_bytes(), before + MORE_BYTES)
        self.ends_well(self.server)


if __name__ == "__main__":
    unittest.main()
