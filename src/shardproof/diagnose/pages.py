"""Pages of the codes that say what became of a reduction, a statistic or a sum; see codes.py."""

from __future__ import annotations

from typing import Protocol


class Declare(Protocol):
    """Takes one page."""

    def __call__(
        self, code: str, title: str, *, what: str, why: str, example: str, fix: str
    ) -> None: ...


def declare_pages(declare: Declare) -> None:
    """Declare them all."""
    declare(
        "SP122",
        "reduced twice",
        what="""A reduction adds up over the ranks what an earlier reduction had completed, so the
        value is as many times too large as the group has ranks.""",
        why="""Gradients are N times too large, which looks like a learning rate that changes with
        the number of ranks.""",
        example="""
        h = all_reduce(x_shard @ w_shard, group=tp)   # in the layer
        h = all_reduce(h, group=tp)                   # and again in the block around it
        """,
        fix="Reduce at one place only; leave the second reduction out.",
    )
    declare(
        "SP123",
        "mean of means",
        what="""A sum is divided by a count (or another sum) over one part, where the sequential
        program divides by that of all parts. Means of parts of unequal size were averaged. Labels
        that a loss leaves out (-100 in `cross_entropy`) make counts unequal.""",
        why="""Tokens of short sequences weigh more than those of long ones. With equal counts the
        two agree, so tests with full batches do not show it.""",
        example="""
        loss = sum(l.sum() / mask.sum() for l, mask in micro_batches) / steps
        """,
        fix="""Divide by the number of elements of the whole batch: sum the count over micro-batches
        and ranks before dividing. Where no label is left out, state it: Input(..., below=V).""",
    )
    declare(
        "SP124",
        "term of a norm, or clipping, missing or extra",
        what="""The squared norm lacks a term, holds one on some ranks only or counts one several
        times; or a factor computed from the norm is not applied, or applied twice.""",
        why="""All gradients are scaled by a wrong factor, in a way that depends on how parameters
        are sharded and replicated.""",
        example="""
        total = all_reduce(square(w_shard) + square(bias))    # bias is replicated: counted N times
        """,
        fix="""Sum squares of sharded tensors over the ranks, add those of replicated ones once, and
        multiply every gradient by the factor.""",
    )
    declare(
        "SP125",
        "summand dropped, repeated or stale",
        what="""Of several values that the sequential program adds up alike, such as the gradients
        of micro-batches, one is missing, counts more than once, or the buffer held something
        before.""",
        why="""Some samples do not train the model, or count twice, and nothing fails; the loss of
        each micro-batch is right.""",
        example="""
        for k, micro_batch in enumerate(micro_batches):
            buffer = grad(micro_batch)            # should be buffer + grad(micro_batch)
        """,
        fix="""Clear the buffer once before the first micro-batch, add every micro-batch once, and
        start the reduction after the last.""",
    )
    declare(
        "SP126",
        "terms of one sum left on different ranks",
        what="""The sequential program adds up several values; each rank holds another of them and
        nothing adds them up. Typical is a tied weight: the first stage has the gradient of the
        embedding, the last one that of the head.""",
        why="""The copies of the weight receive different updates and drift apart; each rank looks
        right by itself.""",
        example="""
        first stage:  embedding.weight.grad       # of the look-up only
        last stage:   head.weight.grad            # of the logits only
        """,
        fix="""Sum the gradients of the copies over the group of ranks that hold one, before the
        update.""",
    )
    declare(
        "SP127",
        "backward of a collective wrong, or hidden",
        what="""The forward pass is proved, and a gradient behind it is wrong: the backward pass
        does not do what the derivative of the forward's collectives is. A collective was hidden
        from autograd, its backward returns another tensor than the reduced one, or shares of a
        replicated value are not summed. Where no gradient arrives at all, that is shown at the call
        of `backward()`: data parallelism with its synchronisation switched off keeps gradients to
        itself.""",
        why="""The loss is right in every step, only the updates are not, so that comparing losses
        of the first step shows nothing.""",
        example="""
        def backward(ctx, grad):
            dense = grad.contiguous()
            all_reduce(dense)                     # sums a copy
            return grad                           # and returns the original
        """,
        fix="""Pair the collectives: where the forward copies to the ranks the backward sums over
        them, where it sums the backward copies; return what was reduced.""",
    )
