"""Documents that the readers accept, to start from."""

from __future__ import annotations

from pathlib import Path

from tests.certificate.corpus import certificate
from tests.frontends.texts import JOINT, LOGGED, MULTI_LINE, PLAIN
from tests.report import verdicts

from shardproof.report.json import to_json
from shardproof.testing.grid import rank_block, sequential_block

FIXTURES = Path(__file__).parents[1] / "frontends" / "hlo" / "fixtures"


def seeds(reader: str) -> list[bytes]:
    """The documents of one reader."""
    return {
        "text": lambda: [sequential_block().encode(), rank_block(0, 1).encode()],
        "hlo": lambda: sorted((p.read_bytes() for p in FIXTURES.glob("*.hlo.txt")), key=len)[:8],
        "fx": lambda: [t.encode() for t in (PLAIN, JOINT, LOGGED, MULTI_LINE)],
        "report": lambda: [to_json(f()) for f in (verdicts.refines, verdicts.refuted)],
        "certificate": lambda: [certificate(name) for name in ("mlp", "cross entropy")],
    }[reader]()
