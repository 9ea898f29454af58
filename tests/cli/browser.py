"""A headless Chromium, driven by its DevTools protocol over two pipes: Python's standard library only."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

LIMIT = 60  # seconds for one answer
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38}


def find_browser():
    """The program, or None."""
    return next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


class Browser:
    """One page, until close()."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def give_pipes():  # the browser reads from 3 and writes to 4
            spare = [os.dup(to_browser), os.dup(from_browser)]
            while min(spare) < 5:
                spare = [os.dup(fd) for fd in spare]
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        self.process = subprocess.Popen(
            [find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",  # other tests fill /dev/shm
             f"--user-data-dir={self.profile.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4),
            preexec_fn=give_pipes, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.calls, self.session, self.events, self.origin = b"", 0, None, [], None
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.shape(width, height, dark)

    def close(self):
        os.close(self.write_end)
        self.process.terminate()
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its processes may still write to the profile
        except ProcessLookupError:
            pass
        os.close(self.read_end)
        self.profile.cleanup()

    def shape(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def read(self):
        """The next message."""
        deadline = time.monotonic() + LIMIT
        while b"\0" not in self.buffer:
            if not select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            block = os.read(self.read_end, 1 << 20)
            if not block:
                raise ConnectionError("the browser has ended")
            self.buffer += block
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        """A file, or if it begins with http: a server's page."""
        self.origin = path if path.startswith("http:") else None
        loader = self.call("Page.navigate", url=self.origin or "file://" + os.path.abspath(path))["loaderId"]
        while not any(self.has_loaded(event, loader) for event in self.events):  # about:blank's load may come late
            self.events.append(self.read())

    @staticmethod
    def has_loaded(event, loader):
        return (event["method"] == "Page.lifecycleEvent" and event["params"]["loaderId"] == loader
                and event["params"]["name"] == "load")

    def run(self, script):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, name, times=1):
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}  # presses a button
                self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=KEYS[name], **text)

    def click(self, selector):
        """Presses the mouse in the middle of an element."""
        x, y = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center', "
                        "behavior: 'instant'}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def slide(self, slider, value):
        """Moves a slider of the page to `value` as a user does: a click on it, then the arrow keys."""
        for _ in range(10):  # the page may still move under the mouse: it writes its numbers anew after each change
            self.click("#" + slider)
            if self.run("document.activeElement.id") == slider:
                break
        else:  # the keys are what is tested
            self.run(f"document.getElementById({json.dumps(slider)}).focus()")
        self.key("Home")
        steps = self.run(f"Number(document.getElementById({json.dumps(slider)}).max)")
        shown = [self.shown(slider)]
        for _ in range(steps):
            if shown[-1] == value:
                return
            self.key("ArrowRight")
            shown.append(self.shown(slider))
        if shown[-1] != value:
            raise ValueError(f"{slider} has no {value!r}, only {shown}")

    def shown(self, slider):
        return self.run(f"document.querySelector('output[for={slider}]').textContent")

    def choose(self, select, value):
        """Takes an entry of a list box, by the keyboard."""
        self.run(f"document.getElementById({json.dumps(select)}).focus()")
        entries = self.run(f"[...document.getElementById({json.dumps(select)}).options].map((o) => o.value)")
        self.key("Home")
        self.key("ArrowDown", entries.index(value))
        self.key("Tab")  # an open list closes

    def number(self, name, within="body"):
        """The full value of a number that the page shows."""
        return self.run(f"Number(document.querySelector({json.dumps(within + f' [data-name=' + json.dumps(name) + ']')}).dataset.value)")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def screenshot(self, path, selector=None):
        """The whole page, or one element, as a PNG."""
        area = self.run("(() => { const r = " + (f"document.querySelector({json.dumps(selector)})" if selector else
                        "document.documentElement") + ".getBoundingClientRect(); return {x: r.x + scrollX, y: r.y + scrollY, "
                        "width: r.width, height: r.height}; })()")
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={**area, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def problems(self):
        """Errors of the page's scripts, and requests that it made for anything but itself."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            advice = parameters.get("entry", {}).get("source") == "rendering"  # on how often a test reads a canvas
            if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded") and not advice:
                found.append(json.dumps(parameters))
            if event["method"] == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")) and not (self.origin and url.startswith(self.origin)):
                    found.append(f"it asks for {url}")
        return found
