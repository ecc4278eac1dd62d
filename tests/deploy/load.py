"""Clients for tests in which replicas are killed."""

import asyncio
import json
import socket

BODY = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 150, "ignore_eos": True}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def ask(port, body, began=None):
    """Returns (status, body, whether the answer is complete). Calls `began` at the first byte of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    payload = json.dumps(body).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(payload))
    writer.write(payload)
    try:
        answer = await reader.read(1)
        if began:
            began()
        answer += await reader.read()
    except ConnectionResetError:
        answer = b""
    writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    # The bytes after the closing brace may be those of the empty last chunk.
    whole = b"[DONE]" in rest if body.get("stream") else b"}" in rest[-9:]
    return status, rest, whole


def outcome(answers, expected):
    """Returns the numbers of complete and incomplete answers of status 200. Complete ones must have `expected` as text."""
    whole = [body for status, body, is_whole in answers if status == 200 and is_whole]
    for body in whole:
        if b"[DONE]" in body:
            events = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
            text = "".join(event["choices"][0]["text"] for event in events)
        else:
            text = json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])["choices"][0]["text"]
        assert text == expected, text
    return len(whole), sum(status == 200 and not is_whole for status, _, is_whole in answers)
