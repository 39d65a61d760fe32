"""Drive a headless Chromium that opens a page, uses it as a person would, and collects its errors."""

import base64
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
QUIET = ("--disable-background-networking", "--hide-scrollbars", "--disable-dev-shm-usage")


@dataclass
class Browser:
    """One open browser."""

    driver: Chrome

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a page in a window of the given size, and wait until its plots are drawn."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(url)

    def ask(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its result."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def until(self, script: str, seconds: float = 20) -> Any:
        """Wait until a script returns a value."""
        wait: WebDriverWait[Chrome] = WebDriverWait(self.driver, seconds, poll_frequency=0.1)
        try:
            return wait.until(lambda _: self.ask(script))
        except TimeoutException:
            pytest.fail(f"not in {seconds} s: {script}; the page is {self.ask('document.title')!r}")

    def click(self, selector: str) -> None:
        """Click on an element by script: it need not be in view."""
        self.ask("document.querySelector(arguments[0]).click()", selector)

    def point(self, selector: str, x: float, drag: int = 0) -> None:
        """Move the pointer to an element, at a fraction `x` of its width; then drag by `drag` pixels."""
        self.ask(
            "document.querySelector(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})", selector
        )
        box = self.ask("document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector)
        actions = ActionChains(self.driver, duration=100)
        pointer = actions.w3c_actions.pointer_action
        pointer.move_to_location(int(box["x"] + x * box["width"]), int(box["y"] + box["height"] / 2))
        if drag:
            pointer.pointer_down()
            pointer.move_by(drag, 0)
            pointer.pointer_up()
        actions.perform()

    def picture(self, file: Path) -> Path:
        """Take a screenshot of the whole page."""
        sizes = {"width": self.ask("innerWidth"), "height": self.ask("document.documentElement.scrollHeight")}
        whole = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "scale": 1, **sizes}}
        file.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", whole)["data"]))
        return file

    def complaints(self) -> list[str]:
        """Return what the page wrote to its console since the last time."""
        log: Callable[[str], Any] = self.driver.get_log
        return [str(each["message"]) for each in log("browser")]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a Chromium, or skip the test if there is none."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, *QUIET):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
