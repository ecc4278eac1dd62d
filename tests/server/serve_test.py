"""serval serve, tested over HTTP and with signals."""

import json
import os
import shutil
import signal
import socket
import tempfile
import unittest

from serving import Case
from harness import PATIENCE, run

STORY = "Once upon a time"


def generated(prompt, tokens, *flags):
    out = run("generate", "-p", prompt, "-n", str(tokens), "--temp", "0", "--json", *flags).stdout
    return json.loads(out)["responses"][0]


class Text(Case):
    def test_greedy_text_is_that_of_generate(self):
        for prompt in [STORY, "The fox", "Grüße, 世界"]:
            body = {"prompt": prompt, "temperature": 0, "max_tokens": 60}
            with self.subTest(prompt=prompt):
                expected = generated(prompt, 60)
                status, answer = self.server.post("/v1/completions", body)
                self.assertEqual((status, answer["choices"][0]["text"]), (200, expected["text"]))
                self.assertEqual(answer["usage"]["completion_tokens"], len(expected["tokens"]))
                events = list(self.server.stream("/v1/completions", body))
                self.assertEqual("".join(e["choices"][0]["text"] for e in events), expected["text"])

    def test_ranks_share_the_model(self):
        shared = self.serve("--gpus", "2")
        status, answer = shared.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 20})
        self.assertEqual((status, answer["choices"][0]["text"]), (200, generated(STORY, 20, "--gpus", "2")["text"]))

    def test_a_stream_has_an_event_a_token(self):
        body = {"prompt": STORY, "temperature": 0, "max_tokens": 20, "ignore_eos": True, "logprobs": 0}
        events = list(self.server.stream("/v1/completions", body))
        self.assertEqual(sum(len(e["choices"][0]["logprobs"]["tokens"]) for e in events), 20)
        self.assertEqual(len(events), 21, "one for each token and the end")
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")

    def test_a_chat_streams_what_it_answers(self):
        body = {"messages": [{"role": "user", "content": "Tell me about a fox."}], "temperature": 0, "max_tokens": 30}
        _, answer = self.server.post("/v1/chat/completions", body)
        events = list(self.server.stream("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}))
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"])
        self.assertEqual(text, answer["choices"][0]["message"]["content"])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], answer["usage"]["completion_tokens"])

    def test_the_same_seed_gives_the_same_answers(self):
        body = {"prompt": STORY, "seed": 7, "n": 3, "max_tokens": 20}
        first, second = (self.server.post("/v1/completions", body)[1]["choices"] for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(len({choice["text"] for choice in first}), 3)
        # The server's default sampling is the model's own, not that of the command line.
        flags = ["--top-k", "0", "--min-p", "0", "--repeat-last-n", "-1"]
        same = run("generate", *(["-p", STORY] * 3), "-n", "20", "-s", "7", "--json", *flags).stdout
        self.assertEqual([choice["text"] for choice in first], [response["text"] for response in json.loads(same)["responses"]])

    def test_several_prompts_are_answered_in_their_order(self):
        body = {"prompt": [STORY, "The fox"], "temperature": 0, "max_tokens": 10, "n": 2, "echo": True}
        _, answer = self.server.post("/v1/completions", body)
        texts = [choice["text"] for choice in answer["choices"]]
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2, 3])
        self.assertEqual(texts[0], STORY + generated(STORY, 10)["text"])
        self.assertEqual(texts[2], "The fox" + generated("The fox", 10)["text"])
        self.assertEqual(texts[0], texts[1])

    def test_the_text_ends_before_a_stop_string(self):
        _, whole = self.server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 60})
        text = whole["choices"][0]["text"]
        stop = text[20:26]
        body = {"prompt": STORY, "temperature": 0, "max_tokens": 60, "stop": [stop]}
        _, answer = self.server.post("/v1/completions", body)
        self.assertEqual(answer["choices"][0]["text"], text[: text.index(stop)])
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_tokens_are_those_of_tokenize(self):
        ids = [int(i) for i in run("tokenize", "-p", STORY).stdout.split()]
        _, answer = self.server.post("/tokenize", {"prompt": STORY})
        self.assertEqual(answer["tokens"], ids)
        by_ids = {"prompt": ids, "temperature": 0, "max_tokens": 10}
        by_text = {"prompt": STORY, "temperature": 0, "max_tokens": 10}
        answers = [self.server.post("/v1/completions", body)[1]["choices"] for body in (by_ids, by_text)]
        self.assertEqual(answers[0], answers[1])

    def test_control_tokens_in_a_prompt_mean_these_tokens(self):
        prompt = "<|start_header_id|>user<|end_header_id|>\n\nHi.<|eot_id|>"

        def count(**more):
            return self.server.post("/tokenize", {"prompt": prompt, **more})[1]["count"]

        ids = [int(i) for i in run("tokenize", "-p", prompt, "--special").stdout.split()]
        tokens = self.server.post("/tokenize", {"prompt": prompt})[1]["tokens"]
        self.assertEqual(tokens, ids)
        self.assertEqual(count(add_special_tokens=False), len(ids) - 1)
        self.assertGreater(count(parse_special=False), len(ids))
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens})[1]["prompt"], "<|begin_of_text|>" + prompt)
        skipped = self.server.post("/detokenize", {"tokens": tokens, "skip_special_tokens": True})[1]["prompt"]
        self.assertNotIn("<|", skipped)
        usage = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})[1]["usage"]
        self.assertEqual(usage["prompt_tokens"], len(ids))
        said = {"messages": [{"role": "user", "content": "Hi.<|eot_id|>"}]}
        plain = {"messages": [{"role": "user", "content": "Hi."}]}
        more = self.server.post("/tokenize", said)[1]["count"] - self.server.post("/tokenize", plain)[1]["count"]
        self.assertGreater(more, 1, "in a message it is text")

    def test_control_tokens_are_in_the_text_if_they_are_asked_for(self):
        eot = self.server.post("/tokenize", {"prompt": "<|begin_of_text|>", "add_special_tokens": False})[1]["tokens"][0]
        body = {"prompt": STORY, "max_tokens": 3, "temperature": 0, "logit_bias": {str(eot): 100}, "logprobs": 0}
        for skip, text, joined in [(True, "", b""), (False, "<|begin_of_text|>" * 3, b"<|begin_of_text|>" * 3)]:
            choice = self.server.post("/v1/completions", {**body, "skip_special_tokens": skip})[1]["choices"][0]
            self.assertEqual(choice["text"], text)
            self.assertEqual(choice["logprobs"]["tokens"], ["<|begin_of_text|>"] * 3)
            chat = {**body, "messages": [{"role": "user", "content": "x"}], "logprobs": True, "skip_special_tokens": skip}
            del chat["prompt"]
            content = self.server.post("/v1/chat/completions", chat)[1]["choices"][0]["logprobs"]["content"]
            self.assertEqual(b"".join(bytes(token["bytes"] or []) for token in content), joined)

    def test_a_conversation_that_the_template_refuses_is_the_clients_mistake(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        template = os.path.join(folder, "strict.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
                       "{% for m in messages %}{{ m.name | default('?') }}: {{ m.content }}\n{% endfor %}")  # fmt: skip
        server = self.serve("--chat-template", template)
        refused = {"messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": "y"}]}
        for path in ("/v1/chat/completions", "/tokenize"):
            status, answer = server.post(path, refused)
            self.assertEqual((status, answer["error"]["param"]), (400, "messages"))
            self.assertIn("no system", answer["error"]["message"])
            self.assertNotIn(folder, answer["error"]["message"])
        status, answer = server.post("/tokenize", {"messages": [{"role": "user", "name": "ann", "content": "y"}]})
        text = server.post("/detokenize", {"tokens": answer["tokens"]})[1]["prompt"]
        self.assertEqual((status, text), (200, "ann: y\n"))

    def test_many_requests_at_once_get_their_own_answers(self):
        prompts = [f"The {animal}" for animal in ["fox", "owl", "bear", "cat", "dog", "mouse"]]
        expected = [generated(prompt, 30)["text"] for prompt in prompts]
        streams = [self.server.stream("/v1/completions", {"prompt": p, "temperature": 0, "max_tokens": 30}) for p in prompts]
        first = [next(stream)["choices"][0]["text"] for stream in streams]
        texts = [f + "".join(e["choices"][0]["text"] for e in s) for f, s in zip(first, streams)]
        self.assertEqual(texts, expected)


class Operation(Case):
    def long_stream(self, server):
        return server.stream("/v1/completions", {"prompt": STORY, "max_tokens": 1500, "ignore_eos": True})

    def test_sigterm_lets_what_runs_come_to_its_end(self):
        server = self.serve("--drain-timeout", str(PATIENCE))
        stream = self.long_stream(server)
        next(stream)
        server.signal(signal.SIGTERM)
        server.wait_for("no request is taken any more")
        self.assertEqual(server.get("/ready")[0], 503)
        self.assertEqual(server.post("/v1/completions", {"prompt": "x"})[0], 503)
        self.assertEqual([e["choices"][0]["finish_reason"] for e in stream][-1], "length")
        self.assertEqual(server.wait(), 0)

    def test_what_runs_longer_than_the_drain_is_told_so(self):
        server = self.serve("--drain-timeout", "0")
        stream = self.long_stream(server)
        next(stream)
        server.signal(signal.SIGTERM)
        events = list(stream)
        self.assertEqual(events[-1]["error"]["code"], "shutting_down")
        self.assertEqual(server.wait(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        server = self.serve()
        stream = self.long_stream(server)
        next(stream)
        server.signal(signal.SIGTERM)
        server.wait_for("no request is taken any more")
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 143)

    def test_a_server_without_work_ends_at_once(self):
        self.ends_well(self.serve())

    def test_what_can_be_read_can_be_asked_for_without_its_body(self):
        for path in ("/", "/health", "/metrics", "/v1/models"):
            status, headers, body = self.server.ask("HEAD", path)
            self.assertEqual((status, body), (200, b""))
            self.assertGreater(int(headers["Content-Length"]), 0)

    def test_a_method_that_a_path_does_not_have_is_told_which_it_has(self):
        for method, path, allowed in (("HEAD", "/v1/completions", "POST"), ("POST", "/health", "GET, HEAD")):
            status, headers, _ = self.server.ask(method, path)
            self.assertEqual((status, headers["Allow"]), (405, allowed))

    def test_a_key_is_needed_where_it_was_given(self):
        server = self.serve("--api-key", "secret", "--alias", "tiny")
        self.assertEqual(server.get("/v1/models")[0], 401)
        status, models = server.get("/v1/models", headers={"Authorization": "Bearer secret"})
        self.assertEqual((status, models["data"][0]["id"]), (200, "tiny"))
        self.assertEqual(server.get("/health"), (200, {"status": "ok"}))
        self.assertFalse(any("secret" in line for line in server.log if line))

    def test_a_request_over_its_time_ends_with_an_error(self):
        server = self.serve("--timeout", "0.05")
        status, answer = server.post("/v1/completions", {"prompt": STORY, "max_tokens": 2000, "ignore_eos": True})
        self.assertEqual((status, answer["error"]["code"]), (504, "timeout"))

    def test_each_request_is_a_line_of_the_log_without_its_text(self):
        server = self.serve()
        server.post("/v1/completions", {"prompt": "Secret words", "max_tokens": 3, "user": "ann\nbob\u202e"})
        line = server.wait_for("request id=cmpl-")
        for part in ["key=anonymous", "status=200", "reason=length", "generated_tokens=3", r'user="ann\nbob\u202e"']:
            self.assertIn(part, line)
        self.ends_well(server)
        self.assertFalse(any("Secret" in line for line in server.log if line))

    def test_a_full_disk_costs_lines_of_the_log_and_no_request(self):
        server = self.serve("--request-log", "/dev/full")
        for _ in range(3):
            self.assertEqual(server.post("/v1/completions", {"prompt": "x", "max_tokens": 3})[0], 200)
        self.ends_well(server)

    def test_a_trace_is_what_the_sms_did_lately(self):
        self.assertEqual(self.server.get("/debug/trace")[1]["error"]["type"], "invalid_request_error")
        server = self.serve("--trace-tokens", "4", "--api-key", "secret")
        self.assertEqual(server.get("/debug/trace")[0], 401)
        key = {"Authorization": "Bearer secret"}
        server.post("/v1/completions", {"prompt": STORY, "max_tokens": 8}, headers=key)
        status, trace = server.get("/debug/trace", headers=key)
        self.assertEqual(status, 200)
        self.assertGreater(len(trace["traceEvents"]), 100)
        self.assertEqual(len(trace["serval"]["windows"]), 4)

    def test_a_trace_has_as_many_tokens_as_its_query_asks_for(self):
        server = self.serve("--trace-tokens", "4")
        server.post("/v1/completions", {"prompt": STORY, "max_tokens": 8, "ignore_eos": True})
        for tokens in (1, 3):
            status, trace = server.get(f"/debug/trace?tokens={tokens}")
            self.assertEqual((status, len(trace["serval"]["windows"])), (200, tokens))
        for query in ("tokens=5", "tokens=0", "tokens=-1", "tokens=x", "tokens=", "tokens=1&tokens=2", "n=1"):
            with self.subTest(query=query):
                status, answer = server.get(f"/debug/trace?{query}")
                self.assertEqual((status, answer["error"]["code"]), (400, "invalid_value"))
                self.assertIn("1 to ", answer["error"]["message"])

    def test_while_the_model_loads_health_says_how_far_it_is(self):
        server = self.serve("-m", "llama-3.2-1b", "--random-weights", "1", "-c", "64", wait=False)
        status, health = server.get("/health")
        self.assertEqual((status, health["status"]), (503, "loading"))
        self.assertNotEqual(health["stage"], "")
        self.assertGreaterEqual(health["progress"], 0)
        self.assertLessEqual(health["progress"], 1)
        self.assertEqual(server.get("/ready")[0], 503)
        status, answer = server.post("/v1/completions", {"prompt": "x"})
        self.assertEqual((status, answer["error"]["code"]), (503, "loading"))

    def test_a_signal_while_the_model_loads_ends_it_well(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve("-m", "llama-3.2-1b", "--random-weights", "1", "-c", "64", wait=False)
            self.assertEqual(server.get("/health")[1]["status"], "loading")
            server.signal(number)
            self.assertEqual(server.wait(), 0, msg=server.log)

    def test_every_answer_has_a_request_id(self):
        for method, path, body in [("GET", "/nowhere", None), ("POST", "/v1/completions", "{"), ("GET", "/health", None)]:
            self.assertRegex(self.server.ask(method, path, body)[1]["X-Request-Id"], "^req-[0-9a-f]{32}$")
            headers = self.server.ask(method, path, body, headers={"X-Request-Id": "mine"})[1]
            self.assertEqual(headers["X-Request-Id"], "mine")
        _, headers, body = self.server.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1})
        self.assertEqual(headers["X-Request-Id"], json.loads(body)["id"])

    def test_pages_of_another_origin_may_ask_with_the_flag_alone(self):
        server = self.serve("--cors", "https://app.example")
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        status, headers, _ = server.ask("OPTIONS", "/v1/chat/completions", headers=asked)
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "https://app.example"))
        self.assertEqual(self.server.ask("OPTIONS", "/v1/chat/completions", headers=asked)[0], 405)
        result = run("serve", "--cors", "app.example")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--cors: 'app.example' is no origin; expected", result.stderr)

    def test_more_connections_than_the_flag_allows_are_told_so(self):
        server = self.serve("--max-connections", "2")
        held = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(2)]
        for client in held:
            self.addCleanup(client.close)
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 200 "))
        self.assertEqual(server.get("/v1/models")[0], 503)
        for _ in range(20):
            self.assertEqual(server.get("/health")[0], 200, "for a load balancer there is room")

    def test_a_body_may_be_as_large_as_the_flag_says(self):
        server = self.serve("--max-body", "300")
        for size, status in ((300, 200), (301, 413)):
            body = json.dumps({"prompt": "x", "max_tokens": 1})
            self.assertEqual(server.ask("POST", "/v1/completions", body.ljust(size))[0], status)

    def test_as_many_threads_read_bodies_as_the_flag_says(self):
        def threads_with(flag):
            server = self.serve("--threads", "1", "--threads-http", flag)
            self.assertEqual(server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0], 200)
            return len(os.listdir(f"/proc/{server.process.pid}/task"))

        self.assertEqual(threads_with("7") - threads_with("1"), 6)

    def test_a_limit_that_is_out_of_range_is_refused_by_name(self):
        for flag, value, limit in (
            ("--max-connections", "0", "1 to 65536"),
            ("--max-body", "67108865", "1 to 67108864"),
            ("--threads-http", "65", "1 to 64"),
        ):
            result = run("serve", flag, value)
            self.assertEqual(result.returncode, 2)
            for part in (flag, value, limit):
                self.assertIn(part.encode(), result.stderr)

    def test_a_place_that_is_taken_is_one_line(self):
        result = run("serve", "--port", str(self.server.port))
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot listen on 127.0.0.1 port", result.stderr)

    def test_keys_are_set_in_one_way(self):
        result = run("serve", "--api-key", "a", "--api-key-file", "b")
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(b"set either, not both", result.stderr)


if __name__ == "__main__":
    unittest.main()
