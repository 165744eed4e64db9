"""A real bug: one training step on 8 rows against two accumulated steps of 4 rows.

The trainer adds up the mean losses of the steps and never divides by their number. Run

    shardproof check examples/grad_accumulation.py:accumulate
"""

from __future__ import annotations

from shardproof import Replicate, Spec, seq
from shardproof.data import graph_files


def accumulate() -> Spec:
    """Both steps on one rank: the relation cuts the batch in two."""
    folder = "bugs/grad_accumulation"
    return Spec.from_graphs(
        name="Gradient accumulation",
        sequential=graph_files(f"{folder}/sequential")[0],
        distributed=graph_files(f"{folder}/distributed"),
        inputs={
            "arg0_1": Replicate(),
            "arg1_1": Replicate(),
            "arg4_1": Replicate(),
            "arg2_1": seq("arg2_1")[0:4],  # labels of the first step
            "arg3_1": seq("arg3_1")[0:4],  # inputs of the first step
            "arg5_1": seq("arg2_1")[4:8],
            "arg6_1": seq("arg3_1")[4:8],
        },
        outputs={"add_1": ("add_3", Replicate())},  # the reported loss
    )
