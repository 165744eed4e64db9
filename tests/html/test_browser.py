"""Reports in headless Chromium; `make test-html` runs these."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.html import small
from tests.html.browser import CHROMIUM, Visit, chromium
from tests.report import verdicts as made

from shardproof.examples.grad_accumulation import accumulate
from shardproof.examples.megatron_gpt import tp2_layers1
from shardproof.report.folder import Configuration
from shardproof.report.html.page import render, render_matrix

pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium"),
    pytest.mark.timeout(600),
]

SPECS: dict[str, Any] = {
    "gpt": tp2_layers1,
    "accumulation": accumulate,
    "missing": lambda: small.block(total=False),
    "order": small.disordered,
    "unproved": small.unproved,
    "symbolic": small.symbolic,
}
ALL = [*SPECS, "alone", "matrix"]
LARGE = 100_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {name: render(*small.checked(make())) for name, make in SPECS.items()}
    texts["alone"] = render(made.refuted())
    lines = [
        Configuration(f"tp={n} dp={m}", "refines", f"tp={n},dp={m}", counts="1 of 1 outputs proved")
        for n in (1, 2, 4) for m in (1, 2)
    ]  # fmt: skip
    texts["matrix"] = render_matrix("check.py:all", lines)
    texts["large"] = render(made.refines(), small.large(LARGE))
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ALL)
def test_nothing_overlaps_or_leaves_the_window(
    browser: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    with Visit(browser, pages[name], width) as visit:
        assert visit.run("measure.faults()") == []
        visit.open_everything()
        assert visit.run("measure.faults()") == []
        if visit.run("Boolean(document.querySelector('.go button'))"):
            visit.page.click(".go button")
            visit.page.wait_for_selector(".detail h3")
            assert visit.run("measure.faults()") == []


BREAK = {
    "overlap": "main > section { height: 20px }",
    "outside": ".numbers { width: 2000px }",
    "text leaves its box": ".graph text { font-size: 30px !important }",
}


@pytest.mark.parametrize("fault", BREAK)
def test_faults_are_noticed(browser: Any, pages: dict[str, Path], fault: str) -> None:
    with Visit(browser, pages["missing"]) as visit:
        visit.page.add_style_tag(content=f".sp {{ {BREAK[fault]} }}")
        assert any(text.startswith(fault) for text in visit.run("measure.faults()"))


@pytest.mark.parametrize("name", ALL)
def test_no_errors_and_no_requests(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Visit(browser, pages[name]) as visit:
        visit.open_everything()
        for button in visit.page.query_selector_all("button:visible")[:20]:
            button.click()
        visit.page.wait_for_timeout(100)
        assert visit.said == []
        assert visit.asked == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["missing", "gpt", "unproved", "matrix"])
def test_texts_are_readable(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    with Visit(browser, pages[name], scheme=scheme) as visit:
        visit.open_everything()
        assert visit.run("measure.pale()") == []


@pytest.mark.parametrize("name", ["missing", "gpt"])
def test_everything_is_reached_by_keyboard(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Visit(browser, pages[name]) as visit:
        visit.run("document.querySelector('.explorer').scrollIntoView()")
        visit.page.wait_for_selector(".tree details, .tree button")
        visit.run("scrollTo(0, 0)")
        wanted = visit.run("measure.controls()")
        reached: list[int] = []
        for _ in range(len(wanted) + 10):
            visit.page.keyboard.press("Tab")
            at = visit.run("measure.focus()")
            if at is None or at["key"] in reached:
                break
            assert at["size"] > 0
            assert at["outline"], "the focus cannot be seen"
            assert at["inside"], "the focus is outside of the window"
            reached.append(at["key"])
        assert set(wanted) <= set(reached)
        assert reached == sorted(reached), "the order of tabs is not that of the page"


def test_keys_open_and_choose(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["missing"]) as visit:
        visit.page.focus("#inputs details summary")
        visit.page.keyboard.press("Enter")
        assert visit.run("document.querySelector('#inputs details').open")
        visit.page.focus(".go button")
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_selector(".detail h3")
        assert visit.run("document.activeElement.className") == "detail"
        assert "%y" in visit.page.inner_text(".detail h3")
        visit.page.focus(".detail .steps .link")
        visit.page.keyboard.press("Space")
        assert "%y" not in visit.page.inner_text(".detail h3")


def test_the_theme_is_chosen_and_kept(browser: Any, pages: dict[str, Path]) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    with Visit(browser, pages["gpt"]) as visit:
        light = visit.run(back)
        visit.page.click("#theme")
        assert visit.run(back) == light
        visit.page.click("#theme")
        dark = visit.run(back)
        assert dark != light
        visit.page.reload()
        assert visit.run(back) == dark
    with Visit(browser, pages["gpt"], scheme="dark") as visit:
        assert visit.run(back) == dark


def test_a_value_tells_what_it_means_and_how(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["missing"]) as visit:
        visit.page.click(".go button")
        visit.page.wait_for_selector(".detail h3")
        detail = visit.page.inner_text(".detail")
        assert "o[0:6, 0:8]{partial 0:4 of 16}" in detail
        visit.page.click(".detail .link:text-is('%p')")
        assert visit.run("document.querySelectorAll('.detail .map .part.sum').length") == 4
        assert visit.page.inner_text("[data-pane=sequential] button[aria-pressed=true]").startswith(
            "matmul"
        )
        visit.page.select_option(".explorer select", "3")
        visit.page.fill("[data-pane=distributed] input", "gelu")
        visit.page.wait_for_selector("text=1 found")


def test_paper_has_no_controls(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["missing"], 794, "dark") as visit:
        visit.page.emulate_media(media="print")
        for selector in (".top", ".go", "#programs"):
            assert not visit.page.is_visible(selector)
        assert visit.run("getComputedStyle(document.querySelector('.sp')).colorScheme") == "light"
        assert visit.run("document.documentElement.scrollWidth <= innerWidth")


def test_a_hundred_thousand_operators_stay_responsive(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["large"]) as visit:
        count = "document.querySelectorAll('*').length"
        assert visit.run(count) < 1500, "rows must not be elements before they are looked at"

        def timed(what: str, act: Any, limit: float) -> None:
            start = time.perf_counter()
            act()
            seconds = time.perf_counter() - start
            assert seconds < limit, f"{what}: {seconds:.2f} s"

        def begin() -> None:
            visit.run("document.querySelector('.explorer').scrollIntoView()")
            visit.page.wait_for_selector(".tree details")

        def search() -> None:
            visit.page.fill("[data-pane=distributed] input", "value_4999")
            visit.page.wait_for_selector("text=11 found")

        def choose() -> None:
            visit.page.click("[data-pane=distributed] .tree button >> nth=10")
            visit.page.wait_for_selector(".detail h3")

        def open_group() -> None:
            pane = "[data-pane=sequential] .tree"
            visit.run(f"document.querySelector('{pane} details details').open = true")
            visit.page.wait_for_selector(f"{pane} details details details")

        timed("unpacked and shown", begin, 6)
        timed("group opened", open_group, 2)
        timed("searched", search, 3)
        timed("chosen, counterpart revealed", choose, 3)
        assert visit.run(count) < 6000
        assert visit.said == []
