"""The captured Qwen2 layer, the same with a fault, and ranks that share key and value heads."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from shardproof import Mesh, Parts, Replicate, Shard, Spec, concat, seq
from shardproof.data import graph_files
from shardproof.examples import qwen2
from shardproof.spec.expression import Expr


def texts() -> list[str]:
    return [lzma.decompress(f.read_bytes()).decode() for f in graph_files("qwen2/tp2")]


def test_refines() -> None:
    verdict = qwen2.tp2().check()
    assert verdict.status == "refines", verdict.findings
    assert verdict.replay.startswith("replayed")
    assert not verdict.unknown_operators
    # The embedding is proved: nothing but the range of the token ids is assumed of it.
    assert not any("embedding" in t for kind, t in verdict.assumptions if kind != "kernel")
    assert any("arg0_1 < 151936" in text for _, text in verdict.assumptions)


def swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


FAULTS: dict[str, Callable[[str], str]] = {
    "no sum of embeddings": lambda t: re.sub(
        r"torch.ops.vllm.all_reduce.default\(masked_fill, 'tp:0'\)",
        "torch.ops.aten.clone.default(masked_fill)", t),
    "no sum after attention": lambda t: re.sub(
        r"torch.ops.vllm.all_reduce.default\(mm, 'tp:0'\)", "torch.ops.aten.clone.default(mm)", t),
    "mask off by one": swap("aten.lt.Scalar(arg0_1, 75968)", "aten.lt.Scalar(arg0_1, 75967)"),
    "rows of another rank": swap("mul.Tensor(bitwise_and, 75968)", "mul.Tensor(bitwise_and, 0)"),
    "keys for values": swap("split_with_sizes_6[2]", "split_with_sizes_6[1]"),
    "keys not rotated": lambda t: t.replace(
        "slice_scatter_1, [768, 128, 128], -1)\n        getitem_21",
        "addmm_kept, [768, 128, 128], -1)\n        getitem_21").replace(
        "slice_scatter: ", 'addmm_kept: "bf16[32768, 1024]" = torch.ops.aten.clone.default(addmm)\n'
        "        slice_scatter: "),
    "another epsilon": swap("epsilon = 1e-06", "epsilon = 1e-05"),
    "old residual": swap("residual = getitem_30", "residual = all_reduce_1"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_do_not_refine(name: str) -> None:
    before = texts()
    after = [FAULTS[name](t) for t in before]
    if name == "old residual":
        after = [t.replace("all_reduce_1 = all_reduce = detach_1 = None", "") for t in after]
    assert after != before
    verdict = replace(qwen2.tp2(), distributed=after).check()
    assert verdict.status == "refuted", (verdict.status, verdict.findings)


# ---------------------------------------------------------------- more ranks than key heads

SIZES = {"768": "384", "1024": "640", "896": "512", "6": "3", "8960": "4480", "4480": "2240",
         "75968": "37984"}  # fmt: skip
ROWS = 37984


def of_four(rank: int) -> str:
    """The program of one of four ranks: half the query heads of a rank of two, one of two key
    and value heads, which two ranks share, and a quarter of the vocabulary."""
    text = texts()[1].replace("Graph[rank=1]", f"Graph[rank={rank}]")
    text = text.replace("ge.Scalar(arg0_1, 75968)", "ge.Scalar(arg0_1, FIRST)")
    text = text.replace(
        'lt: "b8[32768]" = torch.ops.aten.lt.Scalar(arg0_1, 151936)',
        'lt: "b8[32768]" = torch.ops.aten.lt.Scalar(arg0_1, LAST)',
    )
    text = text.replace("mul.Tensor(bitwise_and, 75968)", "mul.Tensor(bitwise_and, FIRST)")
    text = re.sub(r"(?<![\w.:])\d+(?![\w.])", lambda m: SIZES.get(m[0], m[0]), text)
    return text.replace("FIRST", str(ROWS * rank)).replace("LAST", str(ROWS * (rank + 1)))


def fused(name: str, shared: bool) -> Callable[[int], Expr]:
    """Each rank's part of the fused query, key and value weight."""

    def part(r: int) -> Expr:
        head = r // 2 if shared else r % 2
        q = seq(name)[384 * r : 384 * r + 384]
        k, v = (seq(name)[at + 128 * head : at + 128 * head + 128] for at in (1536, 1792))
        return concat(q, k, v, dim=0)

    return part


def four_ranks(shared: bool) -> Spec:
    return Spec.from_graphs(
        sequential=graph_files("qwen2/tp1")[0],
        distributed=[of_four(r) for r in range(4)],
        mesh=Mesh(tp=4),
        inputs={
            "arg1_1": Shard(0),
            "arg3_1": fused("arg3_1", shared),
            "arg4_1": fused("arg4_1", shared),
            "arg7_1": Shard(1),
            "arg9_1": Parts(0, (8960, 8960)),
            "arg10_1": Shard(1),
            "*": Replicate(),
        },
        outputs={"getitem_34": Replicate()},
        groups={"tp:0": "tp"},
        kernels=qwen2.KERNELS,
    )


def test_ranks_may_share_key_and_value_heads() -> None:
    verdict = four_ranks(shared=True).check()
    assert verdict.status == "refines", verdict.findings


def test_the_wrong_key_and_value_heads() -> None:
    verdict = four_ranks(shared=False).check()
    assert verdict.status == "refuted", verdict.findings
