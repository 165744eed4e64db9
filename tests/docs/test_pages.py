"""All code in the documentation runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import PROSE, ROOT, Block, Page, blocks, matches

from shardproof.frontends.aten import registry

DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
GENERATED = {"codes.md", "lemmas.md", "operators.md"}
"""Their examples are pictures of programs; they are tested where they are generated."""


def runnable(page: Path) -> list[Block]:
    return [b for b in blocks(page) if b.language not in PROSE]


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p.name not in GENERATED and runnable(p)],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    # A page may declare rules; other tests in this process count those of the package.
    monkeypatch.setattr(registry, "_RULES", registry.registered())
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".shardproof_cache").mkdir()  # a new one is announced
    uses_jax = "import jax" in page.read_text()
    if uses_jax:
        pytest.importorskip("jax")
    runner = Page(tmp_path, alone=uses_jax)
    for block in blocks(page):
        try:
            runner.run(block)
        except Exception as error:
            pytest.fail(f"{page.name}:{block.line}: {type(error).__name__}: {error}")


@pytest.mark.timeout(300)
def test_the_site_has_no_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the docs extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html",
         "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "tutorial.html").is_file()


def test_every_page_is_reached() -> None:
    index = (DOCS / "index.md").read_text()
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS).with_suffix(""))
        assert name == "index" or f"\n{name}\n" in index, name


def test_no_shell_command_is_left_unrun() -> None:
    """Commands are in console blocks, where they are run."""
    for page in PAGES:
        for block in blocks(page):
            if block.language in PROSE and page.name not in GENERATED:
                found = re.search(r"^(?:\$ )?(?:shardproof|pytest) \w", block.text, re.MULTILINE)
                assert not found, f"{page.name}:{block.line}"


def test_the_runner_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(tmp_path)
    for block in [
        Block("python", "1 / 0", 1),
        Block("console", "$ shardproof explain SP110\nsomething else", 1),
        Block("console", "$ shardproof explain SP999", 1),
        Block("console", "$ shardproof explain SP110", 1, 3),
        Block("rust", "fn main() {}", 1),
        Block("json", "{", 1),
    ]:
        with pytest.raises((AssertionError, ZeroDivisionError, ValueError)):
            page.run(block)


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("a\n...\nc", "a\nb\nb\nc", True),
        ("took ... s", "took 1.2 s", True),
        ("a\nb", "a\nc", False),
        ("a", "a\nb", False),
        ("", "anything", True),
        ("a\n...", "a\nb", True),
    ],
)
def test_matching(wanted: str, found: str, same: bool) -> None:
    assert matches(wanted, found) == same
