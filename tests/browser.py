"""A headless Chromium, driven through chromedriver by plain HTTP: the WebDriver protocol."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

DRIVER = shutil.which("chromedriver")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MISSING = None if DRIVER and CHROMIUM else "chromium and chromedriver are not both installed"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One session: pages are opened, looked at and clicked on as a person would."""

    def __init__(self, port: int, width: int, dark: bool) -> None:
        self.port, self.session = port, ""
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options = {
            "binary": CHROMIUM,
            "args": [*arguments, "--window-size=1280,900"],
            "mobileEmulation": {"deviceMetrics": {"width": width, "height": 740, "mobile": True}},
        }
        if width > 600:
            del options["mobileEmulation"]
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{session['sessionId']}"
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", features=[scheme])
        self._devtools("Network.enable")
        self._devtools(
            "Network.emulateNetworkConditions",
            offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1,
        )  # fmt: skip

    def _ask(self, method: str, path: str, content: object = None) -> Any:
        body = None if content is None else json.dumps(content)
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request(method, self.session + path, body)
            with connection.getresponse() as answer:
                value = json.loads(answer.read())["value"]
                assert answer.status == 200, value
        return value

    def _devtools(self, command: str, **settings: object) -> Any:
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": settings})

    def open(self, path: Path, address: str = "") -> None:
        """Open a file, at an address within it."""
        self._ask("POST", "/url", {"url": path.resolve().as_uri() + address})

    def run(self, script: str) -> Any:
        """What JavaScript returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        """Click what can be seen and reached; anything else is an error."""
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        self._ask("POST", f"/element/{found[ELEMENT]}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Type into a field, or choose what is called so."""
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        self._ask("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def complaints(self) -> list[str]:
        """What the console has been told since it was last asked."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def close(self) -> None:
        """End the session."""
        self._ask("DELETE", "")


@contextmanager
def browser(width: int = 1280, *, dark: bool = False) -> Iterator[Browser]:
    """A browser without a network, as wide as this."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        [str(DRIVER), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        session = Browser(port, width, dark)
        try:
            yield session
        finally:
            session.close()
    finally:
        driver.terminate()
        driver.wait()
