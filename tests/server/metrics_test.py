"""/metrics: has the metrics that docs/serving.md lists, a Prometheus parser reads it, and the values are correct."""

import json
import re
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pypi
from serving import Case
from harness import PATIENCE, run

pypi.fetch()

from prometheus_client import ProcessCollector  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/serving.md"
STORY = "Once upon a time there was a very small fox who lived under a tree"
SLOW = ("--interleaving", "1", "--sms", "64")


def documented():
    """Returns the names in the table of docs/serving.md."""
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## Metrics\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`(?:serval:|process_)[^|]*) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`((?:serval:|process_)\w+)`", cell)}


class Metrics(Case):
    def families(self, server):
        status, headers, body = server.ask("GET", "/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        return list(text_string_to_metric_families(body.decode()))

    def values(self, server):
        """Returns {(name, *sorted labels without the model's): value} as Prometheus reads them."""
        out = {}
        for family in self.families(server):
            for sample in family.samples:
                labels = dict(sample.labels)
                if family.name.startswith("process_"):
                    self.assertEqual(labels, {}, "as in Prometheus' client libraries")
                    labels["model_name"] = "serval-stories"
                self.assertEqual(labels.pop("model_name"), "serval-stories")
                out[(sample.name.removeprefix("serval:"), *sorted(labels.items()))] = sample.value
        return out

    def ask(self, server, **body):
        status, answer = server.post("/v1/completions", {"temperature": 0, "ignore_eos": True, **body})
        self.assertEqual(status, 200)
        return answer["usage"]

    def wait_until(self, server, condition):
        end = time.monotonic() + PATIENCE
        while not condition(values := self.values(server)):
            self.assertLess(time.monotonic(), end, msg=values)
            time.sleep(0.02)
        return values

    def test_the_documents_table_lists_what_is_printed(self):
        self.ask(self.server, prompt="x", max_tokens=1)
        self.server.post("/v1/completions", {"prompt": 1})
        printed = set()
        for family in self.families(self.server):
            self.assertIn(family.type, ("gauge", "counter", "histogram"))
            self.assertNotEqual(family.documentation, "")
            printed.add(family.name + ("_total" if family.type == "counter" else ""))
        self.assertEqual(printed, documented())

    def test_the_process_is_described_as_by_the_prometheus_client(self):
        names = ("cpu_seconds_total", "open_fds", "max_fds", "virtual_memory_bytes", "resident_memory_bytes", "start_time_seconds")
        proc = ProcessCollector(pid=lambda: self.server.process.pid, registry=None)
        v = self.values(self.server)
        ours = {name: v[("process_" + name,)] for name in names}
        theirs = {sample.name.removeprefix("process_"): sample.value for metric in proc.collect() for sample in metric.samples}
        self.assertEqual(set(theirs) & set(names), set(names))
        self.assertAlmostEqual(ours["start_time_seconds"], theirs["start_time_seconds"], delta=0.05)
        self.assertEqual(ours["max_fds"], theirs["max_fds"])
        self.assertLessEqual(abs(ours["open_fds"] - theirs["open_fds"]), 2)  # the connection may close between the two
        self.assertLessEqual(ours["cpu_seconds_total"], theirs["cpu_seconds_total"])
        self.assertAlmostEqual(ours["virtual_memory_bytes"] / theirs["virtual_memory_bytes"], 1, delta=0.2)
        self.assertAlmostEqual(ours["resident_memory_bytes"] / theirs["resident_memory_bytes"], 1, delta=0.2)

    def test_requests_and_tokens_are_counted(self):
        server = self.serve("--max-sequences", "4")
        usage = [self.ask(server, prompt=STORY + " " * i, max_tokens=5 + i) for i in range(3)]
        prompt, generated = (sum(u[f"{kind}_tokens"] for u in usage) for kind in ("prompt", "completion"))
        v = self.wait_until(server, lambda v: v[("generation_tokens_total",)] == generated and v[("num_requests_running",)] == 0)
        self.assertEqual(v[("prompt_tokens_total",)], prompt)
        self.assertEqual(v[("request_success_total", ("finished_reason", "length"))], 3)
        for name, total in (("request_prompt_tokens", prompt), ("request_generation_tokens", generated)):
            self.assertEqual((v[(name + "_count",)], v[(name + "_sum",)]), (3, total))
        self.assertEqual(v[("request_generation_tokens_bucket", ("le", "5"))], 1)
        self.assertEqual(v[("inter_token_latency_seconds_count",)], generated - 3)
        for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time"):
            name += "_seconds"
            self.assertEqual((v[(name + "_count",)], v[(name + "_bucket", ("le", "+Inf"))]), (3, 3))
        shorter = [v[(f"{name}_seconds_sum",)] for name in ("request_queue_time", "time_to_first_token", "e2e_request_latency")]
        self.assertEqual(shorter, sorted(shorter), "a request waits, then gets its first token, then its last")
        self.assertGreater(shorter[0], 0)
        # A request's prompt takes at least one pass, which gives the first token; each further token takes one.
        self.assertGreaterEqual(v[("passes_total",)], generated)
        self.assertGreater(v[("pass_rows_total",)], v[("passes_total",)])
        self.assertLessEqual(v[("launches_total",)], v[("passes_total",)])
        self.assertGreaterEqual(v[("launches_total",)], 3)
        self.assertGreater(v[("pass_seconds_total",)], 0)
        self.assertGreater(v[("launch_gap_seconds_total",)], 0)

    def test_a_prompt_that_was_read_before_is_found(self):
        server = self.serve()
        usage = [self.ask(server, prompt=(STORY + ". ") * 12, max_tokens=1) for _ in range(2)]
        tokens = usage[0]["prompt_tokens"]
        v = self.wait_until(server, lambda v: v[("prefix_cache_queries_total",)] == 2 * tokens)
        self.assertEqual(v[("prefix_cache_hits_total",)], tokens - 1, "all but the last, which has to be read again")
        self.assertEqual(v[("num_preemptions_total",)], 0)

    def test_what_runs_waits_and_is_open_shows(self):
        server = self.serve("--max-sequences", "2", *SLOW)
        body = {"prompt": STORY, "max_tokens": 1900, "ignore_eos": True}
        streams = [server.stream("/v1/completions", body) for _ in range(2)]
        for stream in streams:
            next(stream)
        with ThreadPoolExecutor(2) as pool:
            # The engine gets one more request; the other waits in the server.
            late = [pool.submit(server.post, "/v1/completions", {"prompt": "x", "max_tokens": 1}) for _ in range(2)]
            kinds = ("waiting", "running", "open")
            v = self.wait_until(server, lambda v: [v[(f"num_requests_{kind}",)] for kind in kinds] == [2, 2, 3])
            self.assertGreater(v[("kv_cache_usage_perc",)], 0)
            self.assertLessEqual(v[("kv_cache_usage_perc",)], 1)
            for stream in streams:
                stream.close()
            self.assertEqual([request.result()[0] for request in late], [200, 200])
        v = self.wait_until(server, lambda v: v[("num_requests_running",)] + v[("num_requests_open",)] == 0)
        self.assertEqual((v[("num_requests_waiting",)], v[("kv_cache_usage_perc",)]), (0, 0))

    def test_sequences_that_give_their_blocks_back_are_counted(self):
        context = 256
        bytes_a_token = json.loads(run("info", "--json").stdout)["model"]["kv_bytes_per_token"]
        server = self.serve("-c", str(context), "--kv-cache-memory", str(context * bytes_a_token), "--threads", "1")
        self.ask(server, prompt=STORY, n=3, max_tokens=150, temperature=1, seed=1)
        self.wait_until(server, lambda v: v[("num_preemptions_total",)] > 0)


if __name__ == "__main__":
    unittest.main()
