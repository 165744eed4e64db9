"""Runs the code of a documentation page, in order, in a folder of its own.

A ``python`` block that starts with ``# NAME.py`` is written to that file; any other is executed,
all of a page in one namespace. A ``console`` block has commands after ``$`` and what they print;
``...`` stands for any text, a line of it for any lines. ``<!-- exit: N -->`` before a block gives
the exit code of its last command. Other formats are parsed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shardproof.cli.app import main

ROOT = Path(__file__).parents[2]
NOT_RUN = ("git ", "make ", "pip ", "python3 -m venv ")
"""Commands that install or build: continuous integration itself begins with them."""
PROSE = {"text", "", "mermaid"}
_FENCE = re.compile(
    r"(?P<comment><!-- exit: (?P<code>\d+) -->\n\s*)?^(?P<indent> *)(?P<fence>`{3,})"
    r"(?P<info>[^\n`]*)\n(?P<body>.*?)^ *(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, its line, and the exit code to expect."""

    language: str
    text: str
    line: int
    code: int = 0


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, directives of the site left out."""
    text = page.read_text()
    out = []
    for m in _FENCE.finditer(text):
        if m["info"].startswith("{"):
            continue
        body = "\n".join(line.removeprefix(m["indent"]) for line in m["body"].split("\n"))
        line = text.count("\n", 0, m.start("fence")) + 1
        out.append(Block(m["info"].strip(), body, line, int(m["code"] or 0)))
    return out


class Page:
    """Runs blocks; ``folder`` is the working directory. ``alone``: every command runs in a process
    of its own, as JAX counts its devices once in a process."""

    def __init__(self, folder: Path, alone: bool = False) -> None:
        self.folder, self.alone = folder, alone
        self.names: dict[str, Any] = {"__name__": "page"}
        exec("from shardproof import *", self.names)

    def run(self, block: Block) -> None:
        """Run one block.

        Raises:
            AssertionError: it does not do what the page says.
        """
        runners: dict[str, Callable[[Block], object]] = {
            "python": self._python,
            "console": self._console,
            "yaml": lambda b: yaml.safe_load(b.text),
            "toml": lambda b: tomllib.loads(b.text),
            "json": lambda b: json.loads(b.text),
        }
        if block.language in PROSE:
            return
        assert block.language in runners, f"nobody runs {block.language!r} at line {block.line}"
        runners[block.language](block)

    def _python(self, block: Block) -> None:
        named = re.match(r"# ([\w/.-]+\.py)\n", block.text)
        code = compile(block.text, f"line {block.line}", "exec", dont_inherit=True)
        if named:
            path = self.folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        else:
            exec(code, self.names)

    def _console(self, block: Block) -> None:
        commands = list(_commands(block.text))
        assert commands, f"no command at line {block.line}"
        for k, (command, wanted) in enumerate(commands):
            if command.startswith(NOT_RUN):
                continue
            code, out = self._command(command)
            expected = block.code if k == len(commands) - 1 else 0
            assert code == expected, f"{command}: exit code {code}\n{out}"
            assert matches(wanted, out), f"{command}: printed\n{out}\nthe page says\n{wanted}"

    def _command(self, command: str) -> tuple[int, str]:
        words = shlex.split(command, comments=True)
        forget(self.folder)
        if words[0] == "shardproof" and not self.alone:
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                return main(words[1:]), out.getvalue()
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment(self.folder), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout


def environment(folder: Path) -> dict[str, str]:
    """One in which `shardproof` and `python` are ours."""
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    run = {
        "shardproof": "-m shardproof",
        "python": "",
        "pytest": "-m pytest",
        "torchrun": "-m torch.distributed.run",
    }
    for name, rest in run.items():
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {rest} "$@"\n')
        script.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "PYTEST_ADDOPTS": "-p shardproof.pytest_plugin -p no:cacheprovider",
    }


def forget(folder: Path) -> None:
    """Drop modules of the page, so that a file written anew is read anew."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(folder):
            del sys.modules[name]


def _commands(text: str) -> Iterator[tuple[str, str]]:
    command, wanted = "", []
    for line in text.split("\n"):
        if line.startswith("$ "):
            if command:
                yield command, "\n".join(wanted)
            command, wanted = line[2:], []
        elif command.endswith("\\"):
            command = f"{command[:-1]} {line.strip()}"
        else:
            wanted.append(line.rstrip())
    if command:
        yield command, "\n".join(wanted)


def matches(wanted: str, found: str) -> bool:
    """Whether a text is what a page shows: ``...`` is any text, a line of it any lines."""
    wanted = wanted.strip("\n")
    if not wanted:
        return True
    pattern = re.escape(wanted).replace(r"\.\.\.", ".*")
    flat = "\n".join(line.rstrip() for line in found.strip("\n").split("\n"))
    return re.fullmatch(pattern, flat, re.DOTALL) is not None
