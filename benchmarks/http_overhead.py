#!/usr/bin/env python3
"""Measures the cost of serving over HTTP against the engine alone, on the same requests, one after the other on this machine.

usage: benchmarks/http_overhead.py throughput [--requests 512] [--input 1000] [--output 1000] [--least SHARE] [-- FLAGS]
       benchmarks/http_overhead.py latency [--tokens 256] [--depth 128] [--repetitions 5] [--most MICROSECONDS] [-- FLAGS]

`throughput`: generated tokens a second of `serval bench --requests`, then of `serval serve` with all requests sent at once,
as streams and as whole answers. `latency`: microseconds a token of one sequence, of `serval bench -n TOKENS -d DEPTH` and of
a stream whose prompt has DEPTH tokens. FLAGS go to both commands, such as -m, --random-weights, --backend, --max-batch-tokens,
--kv-cache-memory. The exit code is 1 if a request fails, or if the figure is below --least or above --most.

Prompts are those of `serval bench`; clients are --processes processes of this script, Python's standard library alone.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

LOAD_PATIENCE_S = 900
TAIL_BYTES = 4096  # of an answer: more than its usage takes
EVENT = b'"finish_reason":null}'  # every event of a token has it once


@dataclass
class Answer:
    tokens: int  # 0: it failed
    first: float  # its first bytes, and its last: seconds of the system's monotonic clock
    last: float
    first_event: float = 0.0  # of a stream: when the first token and the last one came
    last_event: float = 0.0
    events: int = 0  # with text in them


def made_up_prompt(tokens, vocabulary, number):
    """As engine/cli/measure/workload.cc makes it."""
    mask = (1 << 64) - 1
    state = (1 + number * 1442695040888963407) & mask
    ids = []
    for _ in range(tokens):
        state = (state * 6364136223846793005 + 1442695040888963407) & mask
        ids.append((state >> 33) % vocabulary)
    return ids


def request_bytes(prompt, output, stream):
    body = {"prompt": prompt, "max_tokens": output, "temperature": 0, "ignore_eos": True, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    payload = json.dumps(body, separators=(",", ":")).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % len(payload) + payload


class Client(asyncio.Protocol):
    """One request. Looks at no more of its answer than it has to: the clients share the machine with the server."""

    def __init__(self, request, stream):
        self.request, self.stream = request, stream
        self.answer = Answer(0, 0.0, 0.0)
        self.head, self.tail = b"", b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        transport.write(self.request)

    def data_received(self, data):
        now = time.monotonic()
        if not self.head:
            self.head = data[:TAIL_BYTES]
            self.answer.first = now
        self.answer.last = now
        # A read may end within an event.
        events = (self.tail[1 - len(EVENT) :] + data).count(EVENT) if self.stream else 0
        if events:
            if not self.answer.events:
                self.answer.first_event = now
            self.answer.events += events
            self.answer.last_event = now
        self.tail = (self.tail + data)[-TAIL_BYTES:]

    def connection_lost(self, error):
        whole = self.head.startswith(b"HTTP/1.1 200 ") and (not self.stream or b"data: [DONE]" in self.tail)
        usage = re.search(rb'"completion_tokens":(\d+)', self.tail)
        if whole and usage and error is None:
            self.answer.tokens = int(usage[1])
        self.done.set_result(None)


async def send_all(port, requests, stream):
    loop = asyncio.get_running_loop()

    async def one(request):
        try:
            _, client = await loop.create_connection(lambda: Client(request, stream), "127.0.0.1", port)
        except OSError:
            return Answer(0, 0.0, 0.0)
        await client.done
        return client.answer

    return await asyncio.gather(*(one(request) for request in requests))


def client_process(port, requests, stream, start, answers):
    start.wait()
    begin = time.monotonic()
    answers.put((begin, asyncio.run(send_all(port, requests, stream))))


def load(port, requests, stream, processes):
    """Sends all requests at once; (seconds from the first one's sending to the last one's end, answers)."""
    context = multiprocessing.get_context("fork")
    start, queue = context.Barrier(processes + 1), context.SimpleQueue()
    shares = [requests[i::processes] for i in range(processes)]
    clients = [context.Process(target=client_process, args=(port, share, stream, start, queue)) for share in shares]
    for client in clients:
        client.start()
    start.wait()
    parts = [queue.get() for _ in clients]
    for client in clients:
        client.join()
    answers = [answer for _, share in parts for answer in share]
    return max(answer.last for answer in answers) - min(begin for begin, _ in parts), answers


class Server:
    """`serval serve` on a free port, until the end of a `with`."""

    def __init__(self, program, flags):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--progress", "off", "--request-log", "none", *flags], stderr=subprocess.PIPE
        )

    def __enter__(self):
        self.lines = []
        killer = threading.Timer(LOAD_PATIENCE_S, self.process.kill)
        killer.start()
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace").rstrip())
            if "ready:" in self.lines[-1]:
                break
        else:
            sys.exit("http_overhead: the server did not start: " + " / ".join(self.lines[-3:]))
        killer.cancel()
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()
        self.port = next(int(found[1]) for found in (re.search(r"http://.*:(\d+)", line) for line in self.lines) if found)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.reader.join()


def bench(program, *flags):
    """Returns the JSON that `serval bench` prints."""
    done = subprocess.run([program, "bench", "-o", "json", "--progress", "off", *flags], stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"http_overhead: serval bench ended with {done.returncode}")
    return json.loads(done.stdout)


def vocabulary(program, model):
    info = subprocess.run([program, "info", "--json", *model], stdout=subprocess.PIPE)
    if info.returncode != 0:
        sys.exit(f"http_overhead: serval info ended with {info.returncode}")
    return json.loads(info.stdout)["model"]["vocabulary"]


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def throughput(options, flags):
    flags = ["--max-sequences", str(options.requests), "-c", str(options.input + options.output), *flags]
    sizes = ["--requests", str(options.requests), "--input", str(options.input), "--output", str(options.output)]
    row("requests of", "failed", "tokens", "s", "generated tokens/s", "of bench")
    row("---", "---:", "---:", "---:", "---:", "---:")
    alone = bench(options.program, *sizes, *flags)
    speed = alone["output_throughput"]
    row("bench", alone["failed"], alone["total_output_tokens"], f"{alone['duration']:.2f}", f"{speed:.1f}", "1")
    size = vocabulary(options.program, options.model)
    limits = ["--max-connections", str(2 * options.requests), "--max-queue", str(options.requests)]
    well = alone["failed"] == 0
    with Server(options.program, [*limits, *flags]) as server:
        for name, stream, first in (("HTTP, streams", True, 0), ("HTTP, whole answers", False, options.requests)):
            # Other prompts each time: none is found in the KV cache.
            prompts = (made_up_prompt(options.input, size, first + i) for i in range(options.requests))
            requests = [request_bytes(prompt, options.output, stream) for prompt in prompts]
            seconds, answers = load(server.port, requests, stream, options.processes)
            failed = sum(answer.tokens != options.output for answer in answers)
            tokens = sum(answer.tokens for answer in answers)
            share = tokens / seconds / speed
            row(name, failed, tokens, f"{seconds:.2f}", f"{tokens / seconds:.1f}", f"{share:.3f}")
            well &= failed == 0 and share >= options.least
    return well


def us_per_token(port, request):
    """Measures one stream from its first token to its last."""
    _, (answer,) = load(port, [request], True, 1)
    if answer.tokens < 2 or answer.events != answer.tokens:
        sys.exit(f"http_overhead: {answer.tokens} tokens came as {answer.events} events; expected one each, and 2 or more")
    return 1e6 * (answer.last_event - answer.first_event) / (answer.tokens - 1)


def latency(options, flags):
    shape = ["-p", "0", "-n", str(options.tokens), "-d", str(options.depth), "-r", str(options.repetitions)]
    flags = ["-c", str(options.depth + options.tokens + 1), *flags]
    row("one sequence", "us/token", "more than bench")
    row("---", "---:", "---:")
    (alone,) = bench(options.program, *shape, *flags)
    row("bench", f"{alone['us_per_pass_total']:.1f}", "0")
    size = vocabulary(options.program, options.model)
    with Server(options.program, ["--max-sequences", "1", *flags]) as server:
        # Another prompt each time, too. The first run warms up.
        prompts = [made_up_prompt(options.depth, size, i) for i in range(options.repetitions + 1)]
        times = [us_per_token(server.port, request_bytes(p, options.tokens + 1, True)) for p in prompts][1:]
    more = statistics.median(times) - alone["us_per_pass_total"]
    row("HTTP, stream", f"{statistics.median(times):.1f}", f"{more:.1f}")
    return more <= options.most


def parse(arguments):
    parser = argparse.ArgumentParser(
        usage=__doc__.split("\n\n")[1].replace("usage: ", ""), description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("what", choices=("throughput", "latency"))
    parser.add_argument("--program", default="build/bin/serval")
    parser.add_argument("-m", "--model", default="", help="of serval; default: the bundled model")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="of clients")
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--input", type=int, default=1000)
    parser.add_argument("--output", type=int, default=1000)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--most", type=float, default=float("inf"))
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, flags = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    options.model = ["-m", options.model] if options.model else []
    options.processes = min(options.processes, options.requests)
    return options, [*options.model, *flags]


def main(arguments):
    options, flags = parse(arguments)
    measure = throughput if options.what == "throughput" else latency
    return 0 if measure(options, flags) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
