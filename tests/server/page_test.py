"""Uses the page at / in headless Chromium. Every test ends with a check that the page has logged no error and has
requested only addresses of the server."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../viewer"))

import browser  # noqa: E402
from serving import Case  # noqa: E402

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt


class Page(Case):
    FLAGS = ("--api-key", "secret", "--alias", "stories")

    def setUp(self):
        self.browser = browser.Browser()
        self.addCleanup(self.browser.close)
        self.address = f"http://127.0.0.1:{self.server.port}/"
        self.browser.visit(self.address, "document.getElementById('queue')?.textContent.includes('running')")

    def tearDown(self):
        self.assertEqual(self.browser.problems, [])
        self.assertTrue(all(request.startswith(self.address) for request in self.browser.requests))

    def evaluate(self, expression):
        return self.browser.evaluate(expression)

    def wait(self, expression):
        self.browser.wait_for(expression)

    def set(self, name, value):
        self.evaluate(f"(document.getElementById('{name}').value = {value!r}, 0)")

    def ask(self, text):
        self.evaluate("(document.getElementById('text').focus(), 0)")
        self.browser.type(text)
        self.browser.key("Enter")

    def idle(self):
        self.wait("!document.getElementById('send').disabled")

    def text_of(self, kind):
        return self.evaluate(f"[...document.querySelectorAll('#log .{kind}')].map(p => p.textContent)")

    def test_a_question_is_answered_as_the_api_answers_it(self):
        for name, value in [("key", "secret"), ("temperature", "0"), ("max_tokens", "30")]:
            self.set(name, value)
        self.ask("Tell me about a fox.")
        self.wait("document.getElementById('speed').textContent.includes('tokens')")
        self.idle()
        message = {"role": "user", "content": "Tell me about a fox."}
        _, answer = self.server.post(
            "/v1/chat/completions",
            {"messages": [message], "temperature": 0, "max_tokens": 30},
            headers={"Authorization": "Bearer secret"},
        )
        self.assertEqual(self.text_of("assistant"), [answer["choices"][0]["message"]["content"]])
        self.assertEqual(self.evaluate("document.getElementById('model').textContent"), "stories")
        self.assertRegex(self.evaluate("document.getElementById('speed').textContent"), r"\d+ tokens, [\d.]+ tokens/s")

    def test_without_the_key_the_reason_is_shown(self):
        self.set("key", "wrong")
        self.ask("Hello")
        self.wait("document.querySelector('#log .error') !== null")
        self.assertIn("Authorization", self.text_of("error")[0])
        self.assertEqual(self.text_of("assistant"), [])
        self.browser.problems.clear()  # the browser logs each 401

    def test_escape_and_the_stop_button_end_an_answer_and_keep_what_was_said(self):
        slow = self.serve("--interleaving", "1", "--sms", "64")  # so slow that no answer ends by itself
        self.browser.visit(f"http://127.0.0.1:{slow.port}/", "document.getElementById('queue')?.textContent !== ''")
        self.address = f"http://127.0.0.1:{slow.port}/"
        self.browser.requests.clear()
        for times, stop in enumerate((lambda: self.browser.key("Escape"), lambda: self.browser.press("#stop")), 1):
            self.ask("Tell me a long story.")
            self.wait("[...document.querySelectorAll('#log .assistant')].at(-1)?.textContent.length > 3")
            self.assertFalse(self.evaluate("document.getElementById('stop').disabled"))
            stop()
            self.idle()
            self.assertEqual(self.evaluate("document.getElementById('speed').textContent"), "stopped")
            self.assertEqual(len(self.text_of("assistant")), times)
            self.assertTrue(self.evaluate("document.getElementById('stop').disabled"))
            slow.wait_for("reason=gone", times)

    def test_new_begins_again(self):
        self.set("key", "secret")
        self.ask("Hello")
        self.wait("document.querySelectorAll('#log .assistant').length === 1")
        self.idle()
        self.browser.press("#clear")
        self.assertEqual(self.evaluate("document.getElementById('log').children.length"), 0)

    def test_it_is_dark_where_the_reader_wants_it(self):
        colours = set()
        for dark in (False, True):
            self.browser.prefer(dark=dark)
            colours.add(self.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)


if __name__ == "__main__":
    if browser.find() is None:
        print("SKIPPED: no Chromium on this machine")
        sys.exit(SKIPPED)
    unittest.main()
