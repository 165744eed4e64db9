"""A certificate may hold anything: the answer is a clear text, within bounded time."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import as_data, certificate

from shardproof.certificate.reading import check_file
from shardproof.cli.app import run_tokens


def refused(data: bytes) -> str:
    start = time.monotonic()
    outcome, _ = check_file(data)
    assert time.monotonic() - start < 20
    assert not outcome.agrees
    assert outcome.problem.startswith("not checked: ")
    return outcome.problem


def test_random_bytes() -> None:
    rng = Random(5)
    good = certificate("mlp")
    for n in (0, 1, 10, 1000):
        refused(rng.randbytes(n))
    for _ in range(30):
        refused(good[: rng.randrange(len(good) - 1)])


def test_flipped_bytes_are_answered() -> None:
    rng = Random(6)
    good = certificate("mlp")
    for _ in range(150):
        data = bytearray(good)
        data[rng.randrange(len(data))] = rng.randrange(256)
        outcome, _ = check_file(bytes(data))
        assert outcome.agrees or outcome.problem.startswith("not checked: ")


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 50_000, b"null", b"[]", b"{}"])
def test_other_documents(text: bytes) -> None:
    refused(text)


def nested(depth: int) -> Any:
    out: Any = ["sum", 3, 1]
    for _ in range(depth):
        out = ["in", 3, 0, out]
    return out


@pytest.mark.parametrize(
    "size",
    [10**2000, -(10**30), "9" * 5000, "N" * 3000, "((((1))))" * 9, "1 +", "@tp*@tp*@tp", "x"],
    ids=lambda s: str(s)[:8],
)
@pytest.mark.parametrize("field", [1, 2])
def test_sizes(size: Any, field: int) -> None:
    data: Any = as_data(certificate("mlp"))
    row = data["proof"]["terms"][3]
    row[field] = [[0, size]] if field == 1 else [size, 0]
    refused(msgspec.json.encode(data))


@pytest.mark.parametrize("depth", [1, 50, 900])
def test_nested_labels(depth: int) -> None:
    data: Any = as_data(certificate("mlp"))
    for row in data["proof"]["terms"]:
        if row[3]:
            row[3][0][0] = nested(depth)
    refused(msgspec.json.encode(data))


def test_large_powers() -> None:
    data: Any = as_data(certificate("cross entropy"))
    for a in data["proof"]["atoms"]:
        if a[1] == "prod":
            a[3] = [[[t, 10**9] for t, _ in op] for op in a[3]]
    refused(msgspec.json.encode(data))


def test_a_definition_of_itself() -> None:
    data: Any = as_data(certificate("mlp"))
    for row in data["proof"]["terms"]:
        row[0] = len(data["proof"]["atoms"]) - 1
    refused(msgspec.json.encode(data))


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, other = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    text = certificate("mlp")
    good.write_bytes(text)
    bad.write_bytes(text.replace(b"gelu", b"tanh", 1))
    other.write_bytes(b"nothing")
    assert run_tokens(["verify-certificate", str(good)]) == 0
    assert "refines (certificate checked)" in capsys.readouterr().out
    assert run_tokens(["verify-certificate", str(bad)]) == 3
    assert "not checked: " in capsys.readouterr().out
    assert run_tokens(["verify-certificate", str(other)]) == 2
    assert run_tokens(["verify-certificate", str(tmp_path / "none")]) == 2
