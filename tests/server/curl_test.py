"""Runs the commands of README.md's section "As a server", and curl on all other paths."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from serving import Case
from harness import PATIENCE

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
README = Path(__file__).resolve().parents[2] / "README.md"
PROGRAM, ADDRESS = "build/bin/serval", "localhost:8080"


def lines_of_readme():
    """Returns (flags of the server, arguments of curl)."""
    section = README.read_text(encoding="utf-8").split("\n## As a server\n")[1].split("\n## ")[0]
    words = [shlex.split(line, comments=True) for line in re.findall(r"^    (\S.*)$", section, re.MULTILINE)]
    (server,) = [line[1:] for line in words if line[0] == PROGRAM]
    (client,) = [line[1:] for line in words if line[0] == "curl"]
    assert server[0] == "serve", server
    return server[1:], client


def curl(*arguments):
    """Returns (status, body)."""
    command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE), "--write-out", "\n%{http_code}", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


class Curl(Case):
    def at(self, path):
        return f"http://localhost:{self.server.port}{path}"

    def test_the_lines_of_the_readme_work(self):
        flags, arguments = lines_of_readme()
        server = self.serve(*flags)  # on a free port, because 8080 may be in use
        self.assertTrue(any(ADDRESS in word for word in arguments))
        status, body = curl(*(word.replace(ADDRESS, f"localhost:{server.port}") for word in arguments))
        answer = json.loads(body)
        self.assertEqual((status, answer["object"], answer["model"]), (200, "text_completion", "serval-stories"))
        self.assertGreater(len(answer["choices"][0]["text"]), 0)

    def test_a_stream_comes_as_events(self):
        messages = [{"role": "user", "content": "Tell me about a fox."}]
        said = json.dumps({"messages": messages, "temperature": 0, "max_tokens": 20, "stream": True})
        status, body = curl("--no-buffer", "--json", said, self.at("/v1/chat/completions"))
        events = body.split("\n\n")
        self.assertEqual((status, events[-2:]), (200, ["data: [DONE]", ""]))
        self.assertTrue(all(event.startswith("data: ") for event in events[:-1]))

    def test_every_path_answers(self):
        for path in ("/", "/health", "/ready", "/version", "/metrics", "/v1/models", "/v1/models/serval-stories"):
            self.assertEqual(curl(self.at(path))[0], 200, path)
        for path, body in (
            ("/v1/completions", {"prompt": "x", "max_tokens": 2}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}),
            ("/v1/responses", {"input": "x", "max_output_tokens": 2}),
            ("/tokenize", {"prompt": "x"}),
            ("/detokenize", {"tokens": [5]}),
        ):
            self.assertEqual(curl("-d", json.dumps(body), self.at(path))[0], 200, path)
        self.assertEqual(curl("--head", self.at("/health"))[0], 200)

    def test_a_body_that_is_long_waits_for_its_100_continue_and_is_read(self):
        body = json.dumps({"prompt": "x", "max_tokens": 1, "stop": ["y" * 1000] * 4})
        self.assertEqual(curl("-H", "Expect: 100-continue", "-d", body, self.at("/v1/completions"))[0], 200)


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("SKIPPED: no curl on this machine")
        sys.exit(SKIPPED)
    unittest.main()
