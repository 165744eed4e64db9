"""The same input gives the same report and certificate, byte for byte, whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = ("0", "1", "4242", "random")


def printed(seed: str) -> str:
    environment = {
        **os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.untrusted.reports"], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def first() -> str:
    return printed(SEEDS[0])


def test_what_is_compared(first: str) -> None:
    lines = [x.split() for x in first.splitlines()]
    statuses = {w for x in lines for w in x if w in ("refines", "refuted", "unproved")}
    assert statuses == {"refines", "refuted", "unproved"}
    assert sum("certificate" in x and int(x[-2]) > 1000 for x in lines) >= 4
    assert len({x[-1] for x in lines if x[-2] != "0"}) == sum(x[-2] != "0" for x in lines)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS[1:])
def test_the_hash_seed_does_not_matter(seed: str, first: str) -> None:
    assert printed(seed).splitlines() == first.splitlines()
