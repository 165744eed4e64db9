"""Megatron-LM GPT, forward with loss: tensor, sequence and vocabulary parallelism.

The graphs were captured from Megatron-LM, one a rank; the sequential model is the same program
on one rank. Run for example

    shardproof check examples/megatron_gpt.py:tp8_layers8
"""

from __future__ import annotations

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.data import graph_files
from shardproof.examples.kernels import MEGATRON
from shardproof.spec.placement import Placement

# The twelve parameters of one layer; primals_4 is the first parameter of layer 0.
LAYER: list[Placement] = [
    Shard(0),  # query, key and value weight
    Shard(0),  # and their bias
    Shard(1),  # attention output weight
    Replicate(),  # and its bias
    Replicate(),  # pre-MLP LayerNorm weight
    Replicate(),  # and bias
    Shard(0),  # MLP up weight
    Shard(0),  # and its bias
    Shard(1),  # MLP down weight
    Replicate(),  # and its bias
    Replicate(),  # next LayerNorm weight
    Replicate(),  # and bias
]


def placements(layers: int) -> dict[str, Placement]:
    """How the inputs lie on the ranks, for any number of layers."""
    parameters: list[Placement] = [Shard(0), Replicate(), Replicate(), *LAYER * layers]
    parameters.append(Shard(0))  # output weight
    named = {f"primals_{k}": p for k, p in enumerate(parameters, 1)}
    # Position embedding, token ids, attention mask, position ids, labels, loss mask.
    return {**named, "primals_*": Replicate()}


def gpt(ranks: int, layers: int, dropout: str = "mask") -> Spec:
    """The check of one captured pair."""
    return Spec.from_graphs(
        name=f"Megatron GPT, tp={ranks}, {layers} layer{'s' if layers > 1 else ''}",
        sequential=graph_files(f"gpt/tp1_layers{layers}")[0],
        distributed=graph_files(f"gpt/tp{ranks}_layers{layers}"),
        mesh=Mesh(tp=ranks),
        inputs=placements(layers),
        outputs={"div_2": Replicate()},  # the loss; what else is returned is for backward
        groups={"12": "tp", "42": "tp", "7": "self"},
        constants={"_tensor_constant*": 0},
        kernels=MEGATRON,
        dropout=dropout,
    )


def tp2_layers1() -> Spec:
    """Two ranks, one layer."""
    return gpt(2, 1)


def tp2_layers2() -> Spec:
    """Two ranks, two layers."""
    return gpt(2, 2)


def tp2_layers4() -> Spec:
    """Two ranks, four layers."""
    return gpt(2, 4)


def tp2_layers8() -> Spec:
    """Two ranks, eight layers."""
    return gpt(2, 8)


def tp8_layers1() -> Spec:
    """Eight ranks, one layer."""
    return gpt(8, 1)


def tp8_layers8() -> Spec:
    """Eight ranks, eight layers."""
    return gpt(8, 8)
