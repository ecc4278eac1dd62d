#!/usr/bin/env python3
"""Replicas of `serval serve` on the nodes of a Ray cluster, and an ingress that routes to them.

    deploy/ray/serval_app.py [--address RAY] [--port 8000] [--replicas 2] [--gpus 1] [--program serval] [-- FLAGS]

FLAGS are those of `serval serve`. Each replica is a process of `serval` on a node with so many GPUs free (0: one CPU). A request whose answer
has not begun when its replica dies is sent to another one; a stream that had begun ends with an event that says so. Serve starts another
replica for each that has died.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import threading

import aiohttp
import ray
from ray import serve
from ray.exceptions import RayError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

ATTEMPTS = 30
PAUSE_S = 0.2  # between two attempts
UNAVAILABLE = 503
MOST_REQUESTS = 4096  # of a replica; its own queue refuses before
PASSED_ON = ("authorization", "content-type")
ANSWERED = ("content-type", "retry-after", "x-request-id", "cache-control", "content-security-policy")


def error_json(code, message):
    return json.dumps({"error": {"message": message, "type": "server_error", "param": None, "code": code}})


@serve.deployment(max_ongoing_requests=MOST_REQUESTS, health_check_period_s=2)
class Replica:
    """One `serval serve`. Its actor ends with it, which Serve notices at once."""

    def __init__(self, program, flags):
        command = [program, "serve", "--host", "127.0.0.1", "--port", "0", "--progress", "off", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.address = None
        for line in self.process.stderr:
            if found := re.search(r"listening on (http://\S+?)(;|$)", line):
                self.address = found[1]
            if line.startswith("serval: ready:"):
                break
        else:
            raise RuntimeError(f"{program} serve ended with {self.process.wait()} before it was ready")
        threading.Thread(target=self._pass_on_log, daemon=True).start()
        self.session = None

    def _pass_on_log(self):
        for line in self.process.stderr:
            print(line, end="", flush=True)
        self.process.wait()
        os._exit(1)

    def __del__(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def pid(self):
        return self.process.pid

    async def forward(self, method, path, headers, body):
        """First (status, headers), then the body as it comes."""
        if self.session is None:
            timeout = aiohttp.ClientTimeout(total=None)
            self.session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        async with self.session.request(method, self.address + path, headers=headers, data=body) as answer:
            yield answer.status, {name: answer.headers[name] for name in ANSWERED if name in answer.headers}
            async for piece in answer.content.iter_any():
                yield piece


@serve.deployment(max_ongoing_requests=MOST_REQUESTS)
class Ingress:
    def __init__(self, replicas):
        self.replicas = replicas.options(stream=True)

    async def __call__(self, request: Request):
        body = await request.body()
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        for _ in range(ATTEMPTS):
            answer = self.replicas.forward.remote(request.method, path, headers, body)
            try:
                status, answered = await answer.__anext__()
            except (RayError, aiohttp.ClientError):
                await asyncio.sleep(PAUSE_S)
                continue
            if status == UNAVAILABLE and path != "/health":  # it drains or has failed; another one may not
                await asyncio.sleep(PAUSE_S)
                continue
            return StreamingResponse(self._rest(answer, answered), status_code=status, headers=answered)
        body = error_json("no_replica", "no replica is ready")
        return Response(body, status_code=UNAVAILABLE, media_type="application/json", headers={"Retry-After": "1"})

    async def _rest(self, answer, headers):
        try:
            async for piece in answer:
                yield piece
        except (RayError, aiohttp.ClientError):
            if not headers.get("content-type", "").startswith("text/event-stream"):
                raise  # the client sees that the body is not whole
            yield b"data: " + error_json("replica_failed", "the replica failed while it answered").encode() + b"\n\n"
        finally:
            answer.cancel()


def application(program, flags, replicas, gpus):
    needs = {"num_gpus": gpus} if gpus > 0 else {"num_cpus": 1}
    replica = Replica.options(num_replicas=replicas, ray_actor_options=needs)
    return Ingress.options(ray_actor_options={"num_cpus": 0}).bind(replica.bind(program, flags))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a Ray cluster; without it, one of this machine is started")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--gpus", type=float, default=1, help="of each replica; 0: a CPU")
    parser.add_argument("--program", default="serval")
    parser.add_argument("flags", nargs="*", help="of serval serve, after --")
    options = parser.parse_args()
    ray.init(address=options.address)
    serve.start(http_options={"host": options.host, "port": options.port})
    serve.run(application(options.program, options.flags, options.replicas, options.gpus), blocking=True)


if __name__ == "__main__":
    main()
