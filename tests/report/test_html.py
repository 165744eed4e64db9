"""The HTML report without a browser: order, escaping, nothing from elsewhere, determinism."""

from __future__ import annotations

import re
import time
from dataclasses import fields, is_dataclass
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from tests.html import small
from tests.report import verdicts as made

from shardproof.report import json as verdicts
from shardproof.report import view as views
from shardproof.report.diagnostic import OutputRelation, Uneven, Verdict
from shardproof.report.html import notebook
from shardproof.report.html.page import render, render_matrix
from shardproof.report.view import Box, Holding, Layout, Related, View

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}{% raw %}&lt;"


class Page(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if "id" in dict(attrs):
            self.ids.append(str(dict(attrs)["id"]))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == tag]


@pytest.fixture(scope="module")
def refuted() -> tuple[Verdict, View]:
    return small.checked(small.block(total=False))


def poisoned(x: Any, field: str = "") -> Any:
    """The same data with every text replaced by one that tries to be markup."""
    if isinstance(x, str):
        keep = field in ("status", "schema", "graph", "ranks") or x in ("proved", "refuted", "open")
        return x if keep else EVIL
    if isinstance(x, msgspec.Struct):
        names = x.__struct_fields__
        return type(x)(**{n: poisoned(getattr(x, n), n) for n in names})
    if is_dataclass(x) and not isinstance(x, type):
        return type(x)(**{f.name: poisoned(getattr(x, f.name), f.name) for f in fields(x)})
    if isinstance(x, dict):
        return {poisoned(k): poisoned(v) for k, v in x.items()}
    if isinstance(x, tuple):
        return tuple(poisoned(v) for v in x)
    return [poisoned(v) for v in x] if isinstance(x, list) else x


def test_the_verdict_and_what_it_rests_on_come_first(refuted: tuple[Verdict, View]) -> None:
    text = render(*refuted)
    wanted = ["verdict-title", "What it rests on", 'id="findings"', 'id="outputs"', 'id="inputs"',
              'id="programs"', 'id="costs"', 'id="statistics"']  # fmt: skip
    places = [text.index(w) for w in wanted]
    assert places == sorted(places)


def test_a_finding_shows_both_sides_the_picture_the_values_and_the_fix(
    refuted: tuple[Verdict, View],
) -> None:
    text = render(*refuted)
    (finding,) = refuted[0].findings
    assert finding.primary is not None
    assert finding.secondary is not None
    for part in (finding.primary.code, finding.secondary.code):
        assert part in text
    assert '<svg class="graph"' in text
    assert 'class="heat' in text
    assert '<span class="added">+ %p.fix' in text
    assert repr(finding.counterexample.sequential_value) in text  # type: ignore[union-attr]


def test_names_cannot_become_markup(refuted: tuple[Verdict, View]) -> None:
    verdict, view = refuted
    clean, dirty = Page(render(verdict, view)), Page(render(poisoned(verdict), poisoned(view)))
    for tag in ("script", "style", "img", "iframe", "object", "link", "meta", "form"):
        assert len(dirty.all(tag)) == len(clean.all(tag)), tag
    for _, attributes in dirty.tags:
        assert not any(name.startswith("on") for name in attributes)
    assert "{{7*7}}" in render(poisoned(verdict))


def test_names_cannot_become_markup_in_notebooks_and_tables() -> None:
    verdict = poisoned(made.refuted())
    lines = [OutputRelation(EVIL, EVIL, "proved", EVIL)]
    texts = [
        notebook.verdict(verdict), notebook.relation(lines),
        notebook.spec(EVIL, {EVIL: EVIL}, {EVIL: EVIL}), render_matrix(EVIL, []),
    ]  # fmt: skip
    for text in texts:
        page = Page(text)
        assert not page.all("img")
        assert len(page.all("script")) == text.count('id="theme"')


def test_the_page_needs_nothing_from_elsewhere(refuted: tuple[Verdict, View]) -> None:
    text = render(*refuted)
    page = Page(text)
    assert not re.search(r"https?://", text)
    assert not re.search(r"@import|url\(", text)
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert not attributes.get("href") or str(attributes["href"]).startswith(("#", "data:"))
    policy = next(a for a in page.all("meta") if a.get("http-equiv"))
    assert "default-src 'none'" in str(policy["content"])


def test_ids_are_unique_and_links_lead_somewhere(refuted: tuple[Verdict, View]) -> None:
    page = Page(render(*refuted))
    assert len(page.ids) == len(set(page.ids))
    links = [str(a["href"])[1:] for a in page.all("a")]
    assert links
    assert set(links) <= set(page.ids)
    labels = [str(a["aria-labelledby"]) for _, a in page.tags if "aria-labelledby" in a]
    assert set(labels) <= set(page.ids)


def test_the_same_data_give_the_same_page(refuted: tuple[Verdict, View]) -> None:
    verdict, view = refuted
    again = verdicts.from_json(verdicts.to_json(verdict)), views.from_json(views.to_json(view))
    assert render(verdict, view) == render(verdict, view) == render(*again)


@pytest.mark.parametrize("make", [made.refines, made.refuted, made.unproved])
def test_a_verdict_alone_has_a_page(make: Any) -> None:
    verdict = make()
    text = render(verdict)
    assert verdict.name in text
    assert 'id="programs"' not in text


def test_what_else_is_known_of_a_verdict_is_said() -> None:
    verdict = made.refines()
    verdict.uneven = Uneven("x: 3 and 5 rows", "refuted", "mean of means")
    verdict.interrupted, verdict.cached = "looking for a fix", True
    verdict.certificate_note = "a step of the fold"
    text = render(verdict)
    for part in ("But not with unequal counts", "mean of means", "looking for a fix",
                 "earlier run", "a step of the fold"):  # fmt: skip
        assert part in text


def test_views_of_other_versions_are_refused() -> None:
    with pytest.raises(views.ViewError, match="schema"):
        views.from_json(b'{"schema": "shardproof-view/9"}')
    with pytest.raises(views.ViewError, match="not a view"):
        views.from_json(b'{"graphs": 3}')


def test_a_hundred_thousand_operators_are_rendered_in_seconds() -> None:
    view = small.large(100_000)
    start = time.process_time()
    text = render(made.refines(), view)
    assert time.process_time() - start < 20
    assert len(text) < 12_000_000
    assert text.count("<") < 3_000  # rows are data, not elements


def test_many_outputs_and_inputs_stay_short() -> None:
    verdict = made.refines()
    verdict.outputs = [
        OutputRelation(f"out_{k}", f"out_{k} of every rank", "open" if k == 4999 else "proved", "R")
        for k in range(5000)
    ]
    layouts = [Layout([k + 2, 4], [Holding([0], [Box([0, 0], [1, 4])])]) for k in range(1000)]
    inputs = [Related(f"in_{k}", f"in_{k}", "", "", f"part {k}", k) for k in range(1000)]
    text = render(verdict, View(ranks="1", layouts=layouts, inputs=inputs))
    assert len(text) < 2_000_000
    assert "and 4,600 more" in text
    assert "and 800 more" in text
    # What is not proved comes first, however many there are.
    assert text.index("out_4999") < text.index("out_0")


def test_notebooks_show_spec_verdict_and_relation(refuted: tuple[Verdict, View]) -> None:
    verdict = refuted[0]
    assert "SP110" in verdict._repr_html_()
    assert "does not hold" in verdict.outputs[0]._repr_html_()
    spec = small.block()
    text = spec._repr_html_()
    assert "tp=4" in text
    assert "S(1)" in text
    assert "_resolved" not in vars(spec)  # nothing was read for it
