"""Llama decoding from AWS transformers-neuronx, captured as HLO: tensor parallelism.

One module stands for all ranks; the sequential model is the same program on one rank. Run for
example

    shardproof check examples/llama_hlo.py:tp8_layers8
"""

from __future__ import annotations

from shardproof import Mesh, Parts, Replicate, Shard, Spec
from shardproof.data import graph_files
from shardproof.frontends.hlo.context import HloContext
from shardproof.ir.graph import Value
from shardproof.spec.placement import Placement

# The seven parameters of one layer.
LAYER: list[Placement] = [
    Replicate(),  # attention norm weight
    Parts(1, (2048, 512, 512)),  # query, key and value weight, each rank's slices side by side
    Shard(1),  # attention output weight
    Replicate(),  # MLP norm weight
    Shard(1),  # gate weight
    Shard(1),  # up weight
    Shard(1),  # down weight
]


def rms_norm(ctx: HloContext, x: Value, weight: Value, eps: float) -> Value:
    """RMSNorm over dim 0 of [hidden, sequence, batch], with one weight a hidden index."""
    last = ctx.move(x, 0, len(x.shape) - 1)
    y, _ = ctx.emit_all("rms_norm", last, weight, naxes=1, eps=ctx.number(eps))
    return ctx.move(y, len(x.shape) - 1, 0)


def transfer(ctx: HloContext, x: Value) -> Value:
    """Its argument: a copy between memories."""
    return x


def placements(layers: int) -> dict[str, Placement]:
    """How the inputs lie on the ranks, for any number of layers."""
    caches: list[Placement] = [Shard(2)] * (2 * layers)
    parameters = [*caches, *LAYER * layers, Replicate(), Shard(1)]  # final norm, logits
    named = {f"p{k}": p for k, p in enumerate(parameters, 6)}
    return {**named, "p*": Replicate()}  # hidden states, positions, start ids, last token


def llama(ranks: int, layers: int) -> Spec:
    """The check of one captured pair."""
    caches = {f"out{k}": Shard(2) for k in range(1, 2 * layers + 1)}
    return Spec.from_graphs(
        name=f"Llama decode (HLO), tp={ranks}, {layers} layer{'s' if layers > 1 else ''}",
        sequential=graph_files(f"llama_hlo/tp1_layers{layers}")[0],
        distributed=graph_files(f"llama_hlo/tp{ranks}_layers{layers}")[0],
        mesh=Mesh(tp=ranks),
        inputs=placements(layers),
        outputs={"out0": Shard(0), **caches},  # logits, then the new caches of every layer
        kernels={"AwsNeuronRmsNorm": rms_norm, "AwsNeuronTransferWithStaticRing": transfer},
    )


def tp2_layers1() -> Spec:
    """Two ranks, one layer."""
    return llama(2, 1)


def tp8_layers1() -> Spec:
    """Eight ranks, one layer."""
    return llama(8, 1)


def tp2_layers8() -> Spec:
    """Two ranks, eight layers."""
    return llama(2, 8)


def tp8_layers8() -> Spec:
    """Eight ranks, eight layers."""
    return llama(8, 8)
