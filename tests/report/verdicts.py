"""Hand-made verdicts for the tests of the renderers."""

from __future__ import annotations

from shardproof.report.diagnostic import (
    Counterexample,
    Finding,
    OperandMeaning,
    OutputRelation,
    Span,
    Verdict,
)


def refines() -> Verdict:
    return Verdict(
        "gpt tp8",
        "refines",
        outputs=[OutputRelation("div_2", "rank0.div_2 = ... = rank7.div_2", "proved", "R")],
        inputs=["primals_{1, 4-5, 10-11, 16}: S(0)", "primals_{2-3, 7-9, 13-15}: R"],
        assumptions=[("group", "group '42' is ranks 0 to 7")],
        conditions=["N >= 2 divides the vocabulary size"],
        left_out=[f"getitem_{k}" for k in range(30)],
        lemmas={"masked_lookup": 8, "cross_entropy": 1},
        nodes={"sequential": 400, "distributed": 3600, "ranks": 8},
        replay="replayed at reduced sizes (768 -> 4): worst relative error 1.1e-15",
        seconds={"read": 0.41, "infer": 0.53},
    )


def refuted() -> Verdict:
    finding = Finding(
        "SP111",
        "value too large by a whole factor",
        "add_3 is 2 times the sequential add_1: the sum of two means is not their mean",
        certain=True,
        primary=Span(
            "distributed", "add_3", "add", "transformers/trainer.py", 3612, "training_step",
            "return loss.detach()", "2 times too large from here on",
        ),
        secondary=Span(
            "sequential", "add_1", "add", "transformers/trainer.py", 98, "training_step",
            "loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch, x)",
        ),
        ranks=[0, 1, 2, 5],
        axes=["dp"],
        collective="all_reduce(sum) over ranks 0-3",
        operands=[
            OperandMeaning("%div", "mean of seq.arg3_1[0:4]"),
            OperandMeaning("%div_1", "mean of seq.arg3_1[4:8]"),
        ],
        expected="seq.add_1",
        found="2 * seq.add_1",
        affected=[f"out_{k}" for k in range(14)],
        counterexample=Counterexample(
            "add_1", [0], {"8": "4"}, 3, [0], 0.125, {"0": 0.25}, 1.0, ["0.1"]
        ),
        fix="divide the loss by the number of accumulation steps",
        fix_verified=True,
        fix_checked="with this change the captured graph refines",
        notes=["the loss is summed at line 3612 of the trainer"],
    )  # fmt: skip
    return Verdict(
        "accumulate",
        "refuted",
        findings=[finding],
        outputs=[
            OutputRelation("other", "rank0.other", "proved", "R"),
            OutputRelation("add_1", "2 * seq.add_1", "refuted", "R"),
        ],
    )


def unproved() -> Verdict:
    finding = Finding(
        "SP200",
        "unproved: operator without a declaration",
        "what depends on my_lib.fused is not known",
        certain=False,
        primary=Span("distributed", "fused_1", "my_lib.fused"),
    )
    return Verdict(
        "custom",
        "unproved",
        findings=[finding],
        outputs=[OutputRelation("y", "", "open", "S(0)")],
        unknown_operators={"my_lib.other": 1, "my_lib.fused": 12},
        seconds={"infer": 0.1},
    )
