"""The export is read by the real Model Explorer; `make test-html` runs these."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.html import small
from tests.html.browser import CHROMIUM, chromium

from shardproof.report.model_explorer import GRAPHS, STATUS, write

explorer = pytest.importorskip("model_explorer")
dacite = pytest.importorskip("dacite")
pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.timeout(300)
WEBGL = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SERVE = """
import sys, model_explorer
model_explorer.visualize_from_config(
    model_explorer.config(), host="127.0.0.1", port=int(sys.argv[1]), no_open_in_browser=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("explorer")
    write(out, small.checked(small.block(total=False))[1])
    return out


def test_graphs_are_of_its_types(folder: Path) -> None:
    data = json.loads((folder / GRAPHS).read_text())
    config = dacite.Config(strict=True)
    made = dacite.from_dict(explorer.graph_builder.GraphCollection, data, config)
    assert [g.id for g in made.graphs][:2] == ["sequential", "rank 0"]


def test_node_data_are_of_its_types(folder: Path) -> None:
    data = json.loads((folder / STATUS).read_text())
    for graph in data.values():
        kind = explorer.node_data_builder.GraphNodeData
        dacite.from_dict(kind, graph, dacite.Config(strict=True))


def test_the_mapping_has_the_words_that_its_page_reads(folder: Path) -> None:
    web = Path(explorer.__file__).with_name("web_app")
    script = "".join(p.read_text(encoding="utf-8") for p in web.glob("main-*.js"))
    data = json.loads((folder / "mapping-1.json").read_text())
    assert data["mappingEntries"]
    for word in ("mappingEntries", "disableMappingFallback", *data["mappingEntries"][0]):
        assert word in script


@contextmanager
def served() -> Iterator[str]:
    """The address of a running Model Explorer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(120):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/check_health"):
                    break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_the_page_shows_both_graphs_and_the_node_data(folder: Path) -> None:
    asked: dict[str, Any] = {
        "models": [{"url": str(folder / GRAPHS)}],
        "nodeData": [str(folder / STATUS)], "nodeDataTargets": [""],
    }  # fmt: skip
    with served() as address, chromium(WEBGL) as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        wrong: list[str] = []
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.goto(f"{address}/?data={quote(json.dumps(asked))}")
        page.wait_for_selector("text=op node count", timeout=60_000)
        text = page.inner_text("body")
        assert "8 nodes" in text  # three inputs and five operators
        assert "NODE DATA PROVIDERS" in text
        assert "gelu" in text
        page.click("text=▼")
        page.click("text=rank 0")
        page.wait_for_function("document.body.innerText.includes('rank 0')", timeout=60_000)
        assert wrong == []
