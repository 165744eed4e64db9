"""Makes docs/screenshots: `make screenshots`. Needs PyTorch and Chromium."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.html import programs, small
from tests.html.browser import Visit, chromium

from shardproof.examples.megatron_gpt import tp8_layers8
from shardproof.report.html.page import render

OUT = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
TO_PROGRAM = """document.querySelector('.go button').click()"""
TO_LAYER = """(async () => {
  const find = document.querySelector('[data-pane=distributed] input');
  document.querySelector('.explorer').scrollIntoView();
  await new Promise((done) => setTimeout(done, 800));
  find.value = 'all_reduce';
  find.dispatchEvent(new Event('input'));
  await new Promise((done) => setTimeout(done, 600));
  document.querySelectorAll('[data-pane=distributed] .tree button')[20].click();
  await new Promise((done) => setTimeout(done, 600));
  document.querySelector('#programs').scrollIntoView();
})()"""
SHOTS: list[tuple[str, Any, int, int, str, str]] = [
    # name, Spec, width, height, scheme, what to do first
    ("pass", tp8_layers8, 1280, 1500, "light", ""),
    ("bug", programs.missing_sum, 1280, 2600, "light", ""),
    ("bug-dark", programs.missing_sum, 1280, 1500, "dark", TO_PROGRAM),
    ("bug-phone", programs.missing_sum, 390, 2000, "light", ""),
    ("layers32", programs.layers_32, 1280, 1500, "light", TO_LAYER),
    ("unproved", programs.unproved, 1280, 1500, "light", ""),
]


def main(folder: Path, names: list[str]) -> None:
    """Take the pictures, all or those named."""
    made: dict[Any, str] = {}
    with chromium() as browser:
        for name, make, width, height, scheme, script in SHOTS:
            if names and name not in names:
                continue
            if make not in made:
                made[make] = render(*small.checked(make()))
            page = folder / f"{name}.html"
            page.write_text(made[make], encoding="utf-8")
            shot(browser, page, name, width, height, scheme, script)
            page.unlink()


def shot(
    browser: Any, page: Path, name: str, width: int, height: int, scheme: str, script: str
) -> None:
    """One picture of the top of a page, or of where a script leads."""
    with Visit(browser, page, width, scheme) as visit:
        visit.page.set_viewport_size({"width": width, "height": height})
        if script:
            visit.run(script)
            visit.page.wait_for_timeout(1500)
        visit.page.screenshot(path=OUT / f"{name}.png")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    main(OUT, sys.argv[1:])
