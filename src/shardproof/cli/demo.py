"""``shardproof demo``: one program that is right, one that is not, both captured by others."""

from __future__ import annotations

import sys
from collections.abc import Callable

from shardproof.examples.grad_accumulation import accumulate
from shardproof.examples.megatron_gpt import tp8_layers8
from shardproof.report import text
from shardproof.report.progress import progress
from shardproof.spec.spec import Spec

STEPS: list[tuple[str, Callable[[], Spec], str]] = [
    (
        """\
1. Megatron-LM GPT with 8 layers on 8 ranks (tensor, sequence and vocabulary
   parallel), captured one graph a rank, against the same model on one rank.
""",
        tp8_layers8,
        "refines",
    ),
    (
        """\
2. A training step of 8 rows against two accumulated steps of 4 rows, captured
   from the Hugging Face trainer. It should report the same loss.
""",
        accumulate,
        "refuted",
    ),
]


def run() -> int:
    """Check both; 0 when each verdict is the one that is right."""
    surprises = []
    for title, make, expected in STEPS:
        sys.stdout.write(f"{title}\n")
        sys.stdout.flush()
        with progress(sys.stderr) as show:
            verdict = make().check(progress=show)
        text.write(verdict, sys.stdout)
        sys.stdout.write("\n")
        if verdict.status != expected:
            surprises.append(f"{verdict.name}: {verdict.status}, should be {expected}")
    for line in surprises:
        sys.stderr.write(f"error: the demo did not come out as it should: {line}\n")
    if not surprises:
        sys.stdout.write(
            "Next: `shardproof explain SP111`, and the Specs behind this demo in examples/.\n"
        )
    return 2 if surprises else 0
