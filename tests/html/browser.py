"""Headless Chromium for the tests and the screenshots of reports."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
MEASURE = Path(__file__).with_name("measure.js").read_text(encoding="utf-8")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@contextmanager
def chromium(more: list[str] | None = None) -> Iterator[Any]:
    """A running browser; ``more`` are further flags."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *(more or [])])
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page of a file, with all that it said and asked for."""

    def __init__(self, browser: Any, file: Path, width: int = 1280, scheme: str = "light") -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.said.append(m.text))
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.on("request", self._request)
        self.page.goto(file.as_uri())
        self.page.evaluate(MEASURE)

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.asked.append(request.url)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        return self.page.evaluate(script)

    def open_everything(self) -> None:
        """Open every ``details`` outside of the graphs, and look at the graphs."""
        self.run("document.querySelectorAll('main details').forEach((d) => { d.open = true; })")
        if self.run("Boolean(document.querySelector('.explorer'))"):
            self.run("document.querySelector('.explorer').scrollIntoView()")
            self.page.wait_for_selector(".tree details, .tree button")
        self.run("scrollTo(0, 0)")
