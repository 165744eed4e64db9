"""The page: templates, styles and script in one text."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shardproof import __version__
from shardproof.report.diagnostic import Verdict
from shardproof.report.html import shown
from shardproof.report.view import GraphView, View

if TYPE_CHECKING:
    from shardproof.report.html.shown import Shown

MAX_LAYOUTS = 600
"""Sharding maps drawn beside the graphs; values with rarer ones have their meaning as text."""


def render(verdict: Verdict, view: View | None = None) -> str:
    """The whole report. The same verdict and view give the same text."""
    script = _asset("report.js")
    return _rendered(
        "page.html",
        r=shown.prepare(verdict, view or View(), MAX_LAYOUTS),
        css=Markup(_asset("report.css")),
        script=Markup(script),
        script_hash=_hash(script),
        data=_data(view) if view is not None and view.graphs else [],
    )


def render_matrix(target: str, configurations: Sequence[object]) -> str:
    """The table of a run over configurations, with links to their reports."""
    css = Markup(_asset("report.css"))
    script = _asset("report.js")
    return _rendered(
        "matrix.html",
        target=target,
        lines=configurations,
        css=css,
        script=Markup(script),
        script_hash=_hash(script),
        version=__version__,
    )


def fragment(name: str, **values: Any) -> str:
    """One part of the report with its styles, for notebooks; ``name`` is a template."""
    css = Markup(_asset("report.css"))
    return _rendered("fragment.html", part_name=name, css=css, **values)


def prepared(verdict: Verdict) -> Shown:
    """A verdict as the templates want it, without a view."""
    return shown.prepare(verdict, View(), 0)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("shardproof.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= shown.FILTERS
    return made


def _rendered(template: str, **values: Any) -> str:
    text: str = _environment().get_template(template).render(**values)
    return text


@functools.cache
def _asset(name: str) -> str:
    return (resources.files("shardproof.report.html") / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _data(view: View) -> list[tuple[str, str]]:
    """Texts and graphs as compressed JSON, each read by the page when it is first needed. In
    base64 there is nothing that could end the script element."""
    parts: list[tuple[str, Any]] = [("texts", view.texts)]
    parts += [(f"graph-{k}", g) for k, g in enumerate(view.graphs)]
    return [(name, _packed(x)) for name, x in parts]


def _packed(x: list[str] | GraphView) -> str:
    data = gzip.compress(msgspec.json.encode(x), compresslevel=6, mtime=0)
    return base64.b64encode(data).decode()
