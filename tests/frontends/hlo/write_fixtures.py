"""Writes the printed modules in ``fixtures``; needs JAX. Run it from the root of the repository:

XLA_FLAGS=--xla_force_host_platform_device_count=8 PYTHONPATH=src:. \\
    python tests/frontends/hlo/write_fixtures.py
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.frontends.hlo.stored import FOLDER, STORED, stem

from shardproof.examples.jax_programs import PROGRAMS

ROOT = Path(__file__).parents[3]


def without_paths(text: str) -> str:
    """The text with file names as they are in the repository or in JAX."""
    text = re.sub(r'"[^"\s]*?/(site-packages/)', '"', text)
    return text.replace(f'"{ROOT}/', '"')


def main() -> None:
    for name, fault, compiled in STORED:
        for kind, text in zip(
            ("plain", "spread"), PROGRAMS[name].texts(fault, compiled), strict=True
        ):
            file = FOLDER / f"{stem(name, fault, compiled)}.{kind}.hlo.txt"
            file.write_text(without_paths(text))


if __name__ == "__main__":
    main()
