"""A thousand clients at once: none is lost, and each gets its own answer."""

import asyncio
import json
import os
import unittest

from serving import Case
from harness import PATIENCE

CLIENTS = int(os.environ.get("SERVAL_TEST_CLIENTS", "1000"))
PROMPTS = [f"{who} {what}" for who in ["The fox", "The owl", "A bear", "My cat"] for what in ["was", "had", "saw", "ran"]]
TOKENS = 12


def body_of(prompt, stream):
    return {"prompt": prompt, "temperature": 0, "max_tokens": TOKENS, "stream": stream}


async def stream_of(port, prompt):
    """The text of one stream, from its first byte to the end of its connection."""
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


class Load(Case):
    FLAGS = ("--max-queue", str(CLIENTS), "--max-sequences", "64", "--request-log", "none", "-c", "128")

    def test_a_thousand_streams_at_once_get_their_own_answers(self):
        def alone(prompt):
            return self.server.post("/v1/completions", body_of(prompt, False))[1]["choices"][0]["text"]

        expected = {prompt: alone(prompt) for prompt in PROMPTS}
        prompts = [PROMPTS[i % len(PROMPTS)] for i in range(CLIENTS)]

        async def all_streams():
            return await asyncio.wait_for(
                asyncio.gather(*(stream_of(self.server.port, prompt) for prompt in prompts)), PATIENCE
            )

        texts = asyncio.run(all_streams())
        wrong = [(prompt, text) for prompt, text in zip(prompts, texts) if text != expected[prompt]]
        self.assertEqual(wrong, [])
        self.ends_well(self.server)


if __name__ == "__main__":
    unittest.main()
