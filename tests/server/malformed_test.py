"""300 malformed requests: each is answered with a status of 400 to 499 and OpenAI's error object, or its connection is
closed, and the server continues to serve."""

import json
import random
import socket
import unittest

from serving import Case
from harness import PATIENCE

COMPLETION = {"prompt": "x", "max_tokens": 1}
CHAT = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
WRONG_VALUES = [True, -1, 1e308, "text", [], {}, [[]], {"a": 1}, 2**63, -(2**70), [None], "\u0000"]
MAY_BE_MINUS_ONE = ("seed", "top_k", "priority", "presence_penalty", "frequency_penalty", "repeat_last_n")
NUMBERS = ["temperature", "top_p", "min_p", "repetition_penalty", "max_tokens", "top_k", "n", "seed", "priority", "presence_penalty",
           "frequency_penalty", "min_tokens", "repeat_last_n", "logprobs"]  # fmt: skip


def http(body, head="POST /v1/completions HTTP/1.1", length=None, extra=b""):
    size = len(body) if length is None else length
    return b"%s\r\nHost: x\r\nContent-Length: %s\r\n%s\r\n%s" % (head.encode(), str(size).encode(), extra, body)


def wrong_values():
    for name in NUMBERS:
        for value in WRONG_VALUES:
            if value == -1 and name in MAY_BE_MINUS_ONE:
                continue  # a valid value
            yield {**COMPLETION, name: value}
    for value in WRONG_VALUES:
        if value != "text" and value != "\u0000":
            yield {"max_tokens": 1, "prompt": value}
            yield {**COMPLETION, "model": value}
            yield {**COMPLETION, "stop": value} if value not in ([], [[]]) else {**COMPLETION, "stop": [[]]}
        yield {**CHAT, "messages": value}
        yield {**CHAT, "messages": [value]}
        yield {**CHAT, "messages": [{"role": "user", "content": value}]} if value not in ([], "text", "\u0000") else {"messages": []}
        yield {**CHAT, "messages": [{"role": value, "content": "x"}]}
        if value is not True:
            yield {**COMPLETION, "stream": value}
            yield {**COMPLETION, "ignore_eos": value}


def wrong_json():
    yield b""
    yield b"\x00"
    yield b"{"
    yield b'{"prompt": '
    yield b'{"prompt": "x"}}'
    yield b'{"prompt": "\xff\xfe"}'
    yield b'{"prompt": "\xed\xa0\x80"}'
    yield b'{"prompt": "\\ud800"}'
    yield b'{"prompt": "x", "prompt": "y"}'
    yield b'{"prompt": 1e999}'
    yield b'{"prompt": NaN}'
    yield b'{"max_tokens": ' + b"9" * 5000 + b', "prompt": "x"}'
    yield b"[" * 50_000
    yield b'{"a":' * 50_000
    yield b'{"prompt": ' + b"[" * 200 + b"]" * 200 + b"}"
    yield b"\xef\xbb\xbf" + b"{}"
    yield b'{"prompt": "' + b"x" * 100_000 + b'"}'
    random.seed(1)
    whole = json.dumps({**COMPLETION, "stop": ["a"], "temperature": 0.5}).encode()
    for _ in range(40):
        broken = bytearray(whole)
        broken[random.randrange(len(whole))] = random.choice(b"\x00\x01\x1f\xff")
        yield bytes(broken)
    for cut in range(1, len(whole) - 1, 3):
        yield whole[:cut]


def wrong_http():
    body = json.dumps(COMPLETION).encode()
    yield b"\r\n\r\n\r\n"
    yield b"GET\r\n\r\n"
    yield b"GET / HTTP/3.0\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # a TLS client
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield http(body, length=-1)
    yield http(body, length="1e3")
    yield http(body, length=10**30)
    yield http(body, length=2 * 1024 * 1024)
    yield http(body, extra=b"Content-Length: 5\r\n")
    yield http(body, extra=b"Transfer-Encoding: chunked\r\n")
    yield http(body, head="POST /v1/completions HTTP/1.1\r\nA b: c")
    yield http(body, extra=b"A: " + b"x" * 100_000 + b"\r\n")
    yield http(body, extra=b"".join(b"A%d: x\r\n" % i for i in range(5000)))
    yield http(body, head="POST " + "/" + "x" * 50_000 + " HTTP/1.1")
    yield b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx"
    yield b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx"
    for path in ["/etc/passwd", "/../../etc/passwd", "/v1/%2e%2e", "/v1/completions/..", "//", "/v1/models/x%00", "/%zz", "health"]:
        yield b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode()
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "post"]:
        yield b"%s /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n" % method.encode()


def requests():
    yield from wrong_http()
    for body in wrong_json():
        yield http(body)
    for value in wrong_values():
        path = "/v1/chat/completions" if "messages" in value else "/v1/completions"
        yield http(json.dumps(value).encode(), head=f"POST {path} HTTP/1.1")


class Malformed(Case):
    FLAGS = ("--timeout", "60")

    def answer_to(self, request):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE) as client:
            try:
                client.sendall(request)
                if b"Host" not in request:
                    client.shutdown(socket.SHUT_WR)
                answer = b""
                while block := client.recv(65536):
                    answer += block
                    head, _, body = answer.partition(b"\r\n\r\n")
                    length = next((int(l[16:]) for l in head.split(b"\r\n") if l.startswith(b"Content-Length: ")), None)
                    if length is not None and len(body) >= length:
                        break
                return answer
            except (ConnectionResetError, BrokenPipeError):
                return b""

    def test_each_is_refused_and_the_server_serves_on(self):
        count = refused = 0
        for request in requests():
            count += 1
            answer = self.answer_to(request)
            if not answer:
                continue
            with self.subTest(request=request[:300], answer=answer[:300]):
                head, _, body = answer.partition(b"\r\n\r\n")
                self.assertRegex(head, rb"^HTTP/1.1 4\d\d ")
                error = json.loads(body)["error"]
                self.assertEqual(set(error), {"message", "type", "param", "code"})
                refused += 1
        self.assertGreaterEqual(count, 300)
        self.assertGreater(refused, 280)
        self.assertEqual(self.server.post("/v1/completions", COMPLETION)[0], 200)
        self.ends_well(self.server)


if __name__ == "__main__":
    unittest.main()
