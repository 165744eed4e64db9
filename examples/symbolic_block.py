"""Proofs for every number of ranks and all sizes, from graphs written by hand.

shardproof check examples/symbolic_block.py:mlp
shardproof check examples/symbolic_block.py:block_tp
shardproof check examples/symbolic_block.py:block_tp_sp
"""

from __future__ import annotations

from pathlib import Path

from shardproof import Replicate, Shard, Spec

HERE = Path(__file__).parent / "symbolic"
COLUMNS, ROWS = Shard(1), Shard(0)


def mlp() -> Spec:
    """Tensor-parallel MLP with a residual: N ranks, any S, D and N*f."""
    return Spec.from_graphs(
        name="MLP, TP over N ranks",
        sequential=HERE / "mlp_seq.txt",
        distributed=HERE / "mlp_tp.txt",
        inputs={"x": Replicate(), "w1": COLUMNS, "w2": ROWS},
        outputs={"y": Replicate()},
    )


def _block(name: str, graph: str, stream: Shard | Replicate) -> Spec:
    return Spec.from_graphs(
        name=name,
        sequential=HERE / "block_seq.txt",
        distributed=HERE / graph,
        inputs={
            "x": stream,
            "w[qkvgu]": COLUMNS,
            "w[od]": ROWS,
            "*": Replicate(),
        },
        outputs={"y": stream},
    )


def block_tp() -> Spec:
    """Transformer block, heads and MLP columns over N ranks."""
    return _block("Transformer block, TP over N ranks", "block_tp.txt", Replicate())


def block_tp_sp() -> Spec:
    """The same with sequence parallelism between the matmuls."""
    return _block("Transformer block, TP + SP over N ranks", "block_tp_sp.txt", ROWS)
