"""Runs `serval serve` on a free port and sends requests to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../cli"))

from harness import PATIENCE, start  # noqa: E402


class Server:
    """A server, with the bundled model unless `flags` name another. `log` has the lines of its stderr."""

    def __init__(self, *flags, env=None, wait=True):
        self.log = []
        self.process = start("serve", "--port", "0", "--progress", "off", *flags, env=env, stderr=subprocess.PIPE)
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = int(re.search(r"https?://.*:(\d+)", self.wait_for("listening on"))[1])
        if wait:
            self.wait_for("ready:")

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.log.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.log.append(None)
            self._changed.notify_all()

    def wait_for(self, text, times=1):
        """Waits for the log line in which `text` occurs for the `times`-th time, and returns it."""

        def found():
            lines = [line for line in self.log if line is None or text in line]
            return lines[times - 1] if len(lines) >= times else None if None in lines else ""

        with self._changed:
            if not self._changed.wait_for(lambda: found() != "", PATIENCE) or found() is None:
                raise AssertionError(f"no {text!r} in {self.log}")
            return found()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=None):
        """Returns (status, headers, body as bytes)."""
        connection = self.connect()
        try:
            payload = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, payload, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path, **more):
        status, _, body = self.ask("GET", path, **more)
        return status, json.loads(body)

    def post(self, path, body, **more):
        status, _, answer = self.ask("POST", path, body, **more)
        return status, json.loads(answer)

    def stream(self, path, body):
        """Yields the events of a stream as they arrive."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            for line in answer:
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    yield json.loads(line[6:])
        finally:
            connection.close()

    def metric(self, name, **labels):
        """Returns a metric's value; 0 if no line has these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        for line in self.ask("GET", "/metrics")[2].decode().splitlines():
            if line.startswith(f"serval:{name}{{") and all(label in line for label in wanted):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def buckets(self, histogram):
        """Returns {upper bound: number of values up to it}."""
        text = self.ask("GET", "/metrics")[2].decode()
        found = re.findall(rf'^serval:{histogram}_bucket{{.*le="(.*)"}} (.*)$', text, re.MULTILINE)
        return {float(bound): float(count) for bound, count in found}

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(timeout=PATIENCE)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()


class Case(unittest.TestCase):
    """A test case with one server for all its tests."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)
        cls.addClassCleanup(cls.server.stop)

    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(server.stop)
        return server

    def ends_well(self, server):
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0, msg=server.log)
