"""`serval serve` with a certificate: real clients over HTTPS, and files that cannot be used."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from serving import Case, Server
from harness import PATIENCE, run

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
STORY = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 24}
FOLDER = tempfile.TemporaryDirectory(prefix="serval-tls-")


def path(name):
    return os.path.join(FOLDER.name, name)


def make_certificate(name):
    """Writes NAME.crt and NAME.key for localhost. Ends the test as skipped if openssl is absent."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", path(name + ".key"), "-out", path(name + ".crt")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        print("SKIPPED: the command openssl, which makes the certificate, is not installed")
        sys.exit(SKIPPED)


class TlsServer(Server):
    """A server over HTTPS, whose certificate its client verifies."""

    def connect(self):
        context = ssl.create_default_context(cafile=path("server.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)


class Tls(Case):
    FLAGS = ("--ssl-certfile", path("server.crt"), "--ssl-keyfile", path("server.key"))

    @classmethod
    def setUpClass(cls):
        cls.server = TlsServer(*cls.FLAGS)
        cls.addClassCleanup(cls.server.stop)

    def complete(self, **more):
        status, answer = self.server.post("/v1/completions", {**STORY, **more})
        self.assertEqual(status, 200, msg=answer)
        return answer["choices"][0]["text"]

    def test_the_log_names_the_address(self):
        self.assertIn(f"listening on https://127.0.0.1:{self.server.port}", self.server.wait_for("listening"))

    def test_answers_are_those_of_a_plain_server(self):
        plain = self.serve()
        status, answer = plain.post("/v1/completions", STORY)
        self.assertEqual(status, 200)
        text = answer["choices"][0]["text"]
        self.assertEqual(self.complete(), text)
        streamed = list(self.server.stream("/v1/completions", STORY))
        self.assertEqual("".join(event["choices"][0]["text"] for event in streamed), text)
        self.assertGreater(len(streamed), 10)

    def test_many_clients_are_answered_at_once(self):
        expected = self.complete()

        def one(number):
            if number % 2:
                return "".join(event["choices"][0]["text"] for event in self.server.stream("/v1/completions", STORY))
            return self.complete()

        with ThreadPoolExecutor(40) as pool:
            self.assertEqual(set(pool.map(one, range(80))), {expected})

    def test_a_connection_is_used_again(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        sockets = set()
        for _ in range(3):
            connection.request("GET", "/health")
            answer = connection.getresponse()
            self.assertEqual((answer.status, json.loads(answer.read())), (200, {"status": "ok"}))
            sockets.add(connection.sock)
        self.assertEqual(len(sockets), 1)

    def test_a_plain_client_is_told_what_is_wrong(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps(STORY))
        answer = connection.getresponse()
        self.assertEqual(answer.status, 400)
        self.assertIn("https://", json.loads(answer.read())["error"]["message"])

    def test_a_client_that_does_not_trust_the_certificate_harms_only_itself(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=PATIENCE, context=ssl.create_default_context())
        with self.assertRaises(ssl.SSLCertVerificationError):
            connection.request("GET", "/health")
        self.complete()

    def test_a_stream_that_is_left_ends(self):
        stream = self.server.stream("/v1/completions", {"prompt": "x", "max_tokens": 1900, "ignore_eos": True})
        next(stream)
        stream.close()
        self.server.wait_for("reason=gone")

    def test_what_runs_is_answered_after_sigterm(self):
        server = TlsServer(*self.FLAGS)
        self.addCleanup(server.stop)
        stream = server.stream("/v1/completions", {**STORY, "max_tokens": 400, "ignore_eos": True})
        next(stream)
        server.signal(signal.SIGTERM)
        events = list(stream)
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(server.wait(), 0, msg=server.log)

    def test_a_key_in_the_certificates_file_is_found(self):
        with open(path("both.pem"), "w", encoding="utf-8") as both:
            for name in ("server.key", "server.crt"):
                with open(path(name), encoding="utf-8") as part:
                    both.write(part.read())
        server = TlsServer("--ssl-certfile", path("both.pem"))
        self.addCleanup(server.stop)
        self.assertEqual(server.get("/health"), (200, {"status": "ok"}))

    def test_files_that_cannot_be_used_are_one_line_and_exit_code_1(self):
        make_certificate("other")
        with open(path("text"), "w", encoding="utf-8") as text:
            text.write("not PEM\n")
        for certificate, key, problem in (
            ("absent", "server.key", "cannot be read"),
            ("text", "server.key", "no certificate in PEM format"),
            ("server.crt", "absent", "cannot be read"),
            ("server.crt", "text", "no private key in PEM format"),
            ("server.crt", "other.key", "does not match the certificate"),
        ):
            with self.subTest(certificate=certificate, key=key):
                result = run("serve", "--port", "0", "--ssl-certfile", path(certificate), "--ssl-keyfile", path(key))
                self.assertEqual((result.returncode, result.stdout), (1, b""))
                lines = result.stderr.decode().strip().splitlines()
                self.assertEqual(len(lines), 1, msg=lines)
                self.assertIn(problem, lines[0])
                self.assertIn(FOLDER.name, lines[0])
        result = run("serve", "--port", "0", "--ssl-keyfile", path("server.key"))
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"without a certificate", result.stderr)


if __name__ == "__main__":
    make_certificate("server")
    unittest.main()
