"""A fault of the engine in the real executable: the clients' answers, /health, and the exit code."""

import json
import unittest
from concurrent.futures import ThreadPoolExecutor

from serving import Case
from harness import run

STORY = "Once upon a time"
LONG = {"prompt": STORY, "max_tokens": 1900, "ignore_eos": True}
# Slow, so that all requests arrive before the launch that fails.
FAULT = ("--fault-at-launch", "4", "--interleaving", "1", "--sms", "64")


class Fault(Case):
    def check_that_what_runs_fails(self, server):
        """A stream that has begun ends with an error event; other requests get 500. Both have the error object."""
        stream = server.stream("/v1/completions", LONG)
        next(stream)
        with ThreadPoolExecutor(2) as pool:
            plain = pool.submit(server.post, "/v1/completions", LONG)
            last = list(stream)[-1]
            status, answer = plain.result()
        self.assertEqual(status, 500)
        for error in (last["error"], answer["error"]):
            self.assertEqual(set(error), {"message", "type", "param", "code"})
            self.assertEqual((error["type"], error["code"]), ("server_error", "engine_error"))
            self.assertIn("launch 4", error["message"])

    def test_what_runs_fails_health_is_red_and_the_process_ends_with_4(self):
        server = self.serve(*FAULT)
        self.assertEqual(server.get("/health")[0], 200)
        self.check_that_what_runs_fails(server)
        status, health = server.get("/health")  # the server still answers for one second
        self.assertEqual((status, health), (503, {"status": "red", "error": "launch 4: fault_at_launch"}))
        self.assertEqual(server.get("/ready")[0], 503)
        self.assertEqual(server.post("/v1/completions", LONG)[0], 503)
        self.assertEqual(server.wait(), 4)
        errors = [line for line in server.log if line and line.startswith("serval: error: ")]
        self.assertEqual(errors, ["serval: error: launch 4: fault_at_launch"])

    def test_with_restart_on_fault_the_same_process_serves_again_on_the_same_port(self):
        server = self.serve(*FAULT, "--restart-on-fault", "--request-log", "none")
        self.check_that_what_runs_fails(server)
        server.wait_for("begins again")
        server.wait_for("ready:", times=2)
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.get("/health"), (200, {"status": "ok"}))
        status, answer = server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 8})
        expected = json.loads(run("generate", "-p", STORY, "-n", "8", "--temp", "0", "--json").stdout)
        self.assertEqual((status, answer["choices"][0]["text"]), (200, expected["responses"][0]["text"]))
        self.ends_well(server)


if __name__ == "__main__":
    unittest.main()
