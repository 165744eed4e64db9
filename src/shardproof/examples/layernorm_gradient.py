"""A real bug: a LayerNorm gradient that is never summed over the sequence-parallel ranks.

Forward and backward of one Megatron-LM GPT layer, two ranks, tensor and sequence parallelism. A
parameter's gradient should lie as the parameter does. Within this graph the gradients of all
parameters that act on a part of the sequence, or of the heads, are only terms of a sum; correct
training code sums them in a later step. In the bug, one parameter was left out of that step.

    shardproof check examples/layernorm_gradient.py:declared_replicated
    shardproof check examples/layernorm_gradient.py:reduced_later
    shardproof check examples/layernorm_gradient.py:one_forgotten
"""

from __future__ import annotations

from shardproof import Mesh, Partial, Replicate, Shard, Spec
from shardproof.data import graph_files
from shardproof.examples.kernels import MEGATRON
from shardproof.spec.placement import Placement

PARAMETERS: dict[int, Placement] = {
    6: Shard(0),  # word embedding
    7: Replicate(),  # position embedding
    8: Replicate(),  # input norm weight
    9: Replicate(),  # and bias
    10: Shard(1),  # attention output weight
    11: Replicate(),  # and its bias
    12: Shard(0),  # query, key and value weight
    13: Shard(0),  # and their bias
    14: Replicate(),  # query norm weight
    15: Replicate(),  # and bias
    16: Replicate(),  # key norm weight
    17: Replicate(),  # and bias
    18: Replicate(),  # pre-MLP norm weight
    19: Replicate(),  # and bias
    20: Shard(0),  # MLP up weight
    21: Shard(0),  # and its bias
    22: Shard(1),  # MLP down weight
    23: Replicate(),  # and its bias
    24: Replicate(),  # final norm weight
    25: Replicate(),  # and bias
}
# The gradient outputs in the order of the parameters.
GRADIENTS = (
    "add_27 add_26 add_24 add_25 add_16 add_15 add_21 add_22 add_19 add_20 add_17 add_18 add_13 "
    "add_14 add_11 add_10 add_9 add_8 tangents_19 tangents_20"
).split()
# Norms and row-parallel biases see this rank's part of the sequence; query and key norms see
# its heads. (The final norm's gradient is returned untouched by this capture.)
SUMMED_LATER = frozenset({8, 9, 11, 14, 15, 16, 17, 18, 19, 23})


def step(partial: frozenset[int], name: str) -> Spec:
    """One step in which the gradients of ``partial`` are declared to be summed later."""
    folder = "bugs/missing_layernorm_allreduce"
    gradients = {
        output: Partial() if parameter in partial else placement
        for output, (parameter, placement) in zip(GRADIENTS, PARAMETERS.items(), strict=True)
    }
    return Spec.from_graphs(
        name=name,
        sequential=graph_files(f"{folder}/sequential", "both")[0],
        distributed=graph_files(f"{folder}/distributed", "both"),
        mesh=Mesh(tp=2),
        inputs={
            **{f"primals_{k}": p for k, p in PARAMETERS.items()},
            "primals_*": Replicate(),  # ids, labels, masks, positions
        },
        outputs={"div_2": Replicate(), **gradients},
        # No gradient was accumulated before this step; the loss comes with gradient one.
        fixed={"tangents_21": 1, "tangents_*": 0},
        groups={"12": "tp", "7": "self", "1": "self", "3": "self"},
        constants={"_tensor_constant*": 0},
        kernels=MEGATRON,
    )


def declared_replicated() -> Spec:
    """Every gradient as its parameter lies: ten gradients are only partial."""
    return step(frozenset(), "LayerNorm gradient, all declared as their parameters")


def reduced_later() -> Spec:
    """The ten gradients that a later step sums, declared so."""
    return step(SUMMED_LATER, "LayerNorm gradient, ten summed later")


def one_forgotten() -> Spec:
    """The bug: the pre-MLP norm weight is not among those that are summed."""
    return step(SUMMED_LATER - {18}, "LayerNorm gradient, one forgotten")
