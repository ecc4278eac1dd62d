"""Drives headless Chromium over the pipe of its DevTools protocol: no package but the browser, no port, no network."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120  # seconds that nothing but a hang takes
KEY_CODES = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9,
             "PageUp": 33, "PageDown": 34, "Home": 36}
MODIFIERS = {"alt": 1, "ctrl": 2, "meta": 4, "shift": 8}
READ_FD, WRITE_FD = 3, 4  # of the browser; --remote-debugging-pipe asks for these


def find():
    """The browser's path; None if there is none. SERVAL_CHROMIUM names one that is not on the path."""
    return os.environ.get("SERVAL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page. What the page logs, throws and asks the network for is kept."""

    def __init__(self, width=1600, height=1000, scale=1, arguments=()):
        self.directory = tempfile.TemporaryDirectory(prefix="serval-chromium-")
        self.to_browser, self.from_browser, self.process = self._start(arguments)
        self.received = b""
        self.calls = 0
        self.problems = []  # console errors and uncaught exceptions
        self.requests = []  # addresses, the page's own apart
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.page(f"{domain}.enable")
        self.resize(width, height, scale)

    def _start(self, arguments):
        child_reads, to_browser = os.pipe()
        from_browser, child_writes = os.pipe()

        def place_pipes():
            # Out of the way first: one of the ends may be 3 or 4 already.
            high = [os.dup2(fd, fd + 100) for fd in (child_reads, child_writes)]
            os.dup2(high[0], READ_FD)
            os.dup2(high[1], WRITE_FD)

        command = [find(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.directory.name}",
                   "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb", *arguments]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox refuses to run as root
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
                                   preexec_fn=place_pipes)
        os.close(child_reads)
        os.close(child_writes)
        return to_browser, from_browser, process

    # --- protocol

    def _receive(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self.from_browser, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("the browser does not answer" if ready == [] else "the browser has ended")
            self.received += chunk
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._notice(answer)

    def page(self, method, **parameters):
        return self.call(method, self.session, **parameters)

    def _notice(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    # --- the page

    def open(self, path):
        """Opens a page of the viewer and waits until it is ready."""
        self.visit(f"file://{path}", "document.body && document.body.dataset.ready")

    def visit(self, address, ready):
        """Opens a page and waits until an expression is true."""
        self.problems.clear()
        self.page("Page.navigate", url=address)
        self.wait_for(ready)
        self.settle()

    def evaluate(self, expression):
        answer = self.page("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    def wait_for(self, expression):
        end = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise AssertionError(f"waited for {expression}; problems: {self.problems}")
            time.sleep(0.02)
        return value

    def settle(self):
        """Until what was asked for is drawn: a frame for the state, one for the canvas."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def box(self, selector):
        """(x, y, width, height) in CSS pixels."""
        return self.evaluate("(box => [box.x, box.y, box.width, box.height])"
                             f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")

    def resize(self, width, height, scale=1):
        self.page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, dark=False, calm=True):
        """What the system asks pages for: a colour scheme, less motion."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]
        self.page("Emulation.setEmulatedMedia", features=features)

    # --- input

    def key(self, key, *modifiers):
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        code = KEY_CODES.get(key, ord(key.upper()) if len(key) == 1 and key.isalnum() else 0)
        held = sum(MODIFIERS[m] for m in modifiers)
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": held}
        self.page("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.page("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def type(self, text):
        for character in text:
            self.key(character)

    def _mouse(self, kind, x, y, held=0, **more):
        self.page("Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=held, **more)

    def move(self, x, y):
        self._mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y, clicks=1):
        self._mouse("mouseMoved", x, y)
        for n in range(1, clicks + 1):
            self._mouse("mousePressed", x, y, button="left", clickCount=n)
            self._mouse("mouseReleased", x, y, button="left", clickCount=n)
        self.settle()

    def press(self, selector):
        """Clicks the middle of an element, scrolled into view."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        x, y, width, height = self.box(selector)
        self.click(x + width / 2, y + height / 2)

    def drag(self, begin, end, *modifiers, steps=8):
        held = sum(MODIFIERS[m] for m in modifiers)
        (x0, y0), (x1, y1) = begin, end
        self._mouse("mouseMoved", x0, y0, held)
        self._mouse("mousePressed", x0, y0, held, button="left", clickCount=1)
        for i in range(1, steps + 1):
            self._mouse("mouseMoved", x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps, held, button="left", buttons=1)
        self._mouse("mouseReleased", x1, y1, held, button="left", clickCount=1)
        self.settle()

    def wheel(self, x, y, delta_y, *modifiers):
        self._mouse("mouseWheel", x, y, sum(MODIFIERS[m] for m in modifiers), deltaX=0, deltaY=delta_y)
        self.settle()

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.page("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(timeout=PATIENCE)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
