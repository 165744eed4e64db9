"""A step on a batch in three micro-batches on each of two ranks, written in the text form."""

from __future__ import annotations

from shardproof.spec.mesh import Mesh
from shardproof.spec.placement import Replicate, Shard
from shardproof.spec.spec import Spec

ROWS, WIDTH, INNER, STEPS = 12, 4, 6, 3

WEIGHTS = f"%w = input f32[{WIDTH}, {INNER}]\n%u = input f32[{INNER}, {WIDTH}]\n"


def _step(x: str, tail: str) -> str:
    """The squares of the outputs, and the gradient of the second weight."""
    return (
        f"%h{tail} = matmul(%{x}, %w)\n%a{tail} = tanh(%h{tail})\n"
        f"%y{tail} = matmul(%a{tail}, %u)\n%q{tail} = mul(%y{tail}, %y{tail})\n"
        f"%at{tail} = permute(%a{tail}) {{perm=(1, 0)}}\n"
        f"%d{tail} = scale(%y{tail}) {{by=1/{ROWS * WIDTH // 2}}}\n"
        f"%g{tail} = matmul(%at{tail}, %d{tail})\n"
    )


def _sequential() -> str:
    return (
        f"graph step\n%x = input f32[{ROWS}, {WIDTH}]\n" + WEIGHTS + _step("x", "")
        + "%loss = mean(%q) {dims=(0, 1), keepdim=False}\nreturn %loss, %g\n"
    )  # fmt: skip


def _rank(rank: int) -> str:
    rows = ROWS // 2
    size = rows // STEPS
    text = f"graph step\nrank {rank}\nmesh dp=2\n%x = input f32[{rows}, {WIDTH}]\n" + WEIGHTS
    for k in range(STEPS):
        text += f"%x{k} = slice(%x) {{dim=0, start={k * size}, stop={k * size + size}}}\n"
        text += _step(f"x{k}", str(k))
        text += f"%l{k} = mean(%q{k}) {{dims=(0, 1), keepdim=False}}\n"
    for v, total in (("l", "lsum"), ("g", "gsum")):
        text += f"%{total}1 = add(%{v}0, %{v}1)\n%{total} = add(%{total}1, %{v}2)\n"
    group = "group=(0, 1), group_size=2"
    return (
        text + f"%part = scale(%lsum) {{by=1/{STEPS}}}\n"
        f'%loss = all_reduce(%part) {{op="avg", {group}}}\n'
        f'%g = all_reduce(%gsum) {{op="sum", {group}}}\nreturn %loss, %g\n'
    )


def micro_batches() -> Spec:
    """The check of the accumulated loss and gradient."""
    return Spec.from_graphs(
        name="Micro-batches, dp=2, three steps",
        sequential=_sequential(),
        distributed=[_rank(0), _rank(1)],
        mesh=Mesh(dp=2),
        inputs={"x": Shard(0), "*": Replicate()},
        outputs={"loss": Replicate(), "g": Replicate()},
    )
