"""Prints a hash of every report and certificate of some problems; the process's hash seed must
not matter. Times are left out: they are measured, not derived.

    python -m tests.untrusted.reports
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator

from shardproof.examples import grad_accumulation, layernorm_gradient, megatron_gpt
from shardproof.report.diagnostic import Verdict
from shardproof.report.json import to_json
from shardproof.report.text import plain
from shardproof.spec.mesh import Mesh
from shardproof.spec.placement import Replicate
from shardproof.spec.problem import Problem
from shardproof.spec.spec import Spec
from shardproof.testing.fuzz.programs import any_program
from shardproof.testing.grid import grid_block
from shardproof.testing.mutate import mutants
from shardproof.testing.steps import micro_batches
from shardproof.verify import verify

Keep = Callable[[bytes], object]
UNKNOWN = """\
graph g
%x = input f32[4]
%y = opaque(%x) {target="mystery", shape=(4,), dtype="f32"}
return %y
"""


def unknown() -> Spec:
    """An operator without a meaning."""
    ranks = [UNKNOWN.replace("graph g", f"graph g\nrank {r}") for r in range(2)]
    return Spec.from_graphs(
        sequential=UNKNOWN, distributed=ranks, mesh=Mesh(tp=2),
        inputs={"x": Replicate()}, outputs={"y": Replicate()},
    )  # fmt: skip


def verdicts() -> Iterator[tuple[str, Callable[[Keep], Verdict]]]:
    """Checks by name; each is given where the certificate goes."""
    specs = {
        "grid": grid_block, "steps": micro_batches, "accumulate": grad_accumulation.accumulate,
        "declared": layernorm_gradient.declared_replicated, "gpt": lambda: megatron_gpt.gpt(2, 1),
        "unknown": unknown,
    }  # fmt: skip
    for name, make in specs.items():
        yield name, lambda keep, make=make: make().check(certificate=keep)
    grid = grid_block().resolve()
    wrong = [m.problem for m in mutants(grid, seed=1, count=4)]
    random = [any_program(seed)[1] for seed in (5, 11, 202, 309)]
    for k, problem in enumerate([*wrong, *random]):
        yield f"problem {k}", lambda keep, p=problem: _verify(p, keep)


def _verify(problem: Problem, keep: Keep) -> Verdict:
    return verify(problem, certificate=keep)


def main() -> None:
    for name, check in verdicts():
        proofs: list[bytes] = []
        verdict = check(proofs.append)
        verdict.seconds = {}
        texts = {
            "text": plain(verdict, full=True).encode(), "json": to_json(verdict),
            "certificate": b"".join(proofs),
        }  # fmt: skip
        for kind, data in texts.items():
            digest = hashlib.sha256(data).hexdigest()
            sys.stdout.write(f"{name} {verdict.status} {kind} {len(data)} {digest}\n")


if __name__ == "__main__":
    main()
