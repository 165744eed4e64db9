"""The Spec itself: reading graphs, meshes, groups, ranks."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import pytest
from tests.spec.programs import RANKS, SEQUENTIAL, SPMD, SYMBOLIC_SEQUENTIAL

import shardproof
from shardproof import InputError, Mesh, Replicate, Shard, Spec
from shardproof.data import graph_files
from shardproof.ir.graph import Mesh as GraphMesh
from shardproof.ir.graph import Program
from shardproof.ir.sizes import symbol
from shardproof.ir.text import parse_graph
from shardproof.ops.base import infer_types
from shardproof.spec.load import members

INPUTS = {"x": Shard(0), "w": Replicate()}


def spec(**more: Any) -> Spec:
    arguments: dict[str, Any] = {
        "sequential": SEQUENTIAL,
        "distributed": RANKS,
        "mesh": Mesh(tp=2),
        "inputs": INPUTS,
    }
    return Spec.from_graphs(**(arguments | more))


def test_public_names_are_there_and_few() -> None:
    assert len(shardproof.__all__) <= 15
    for name in shardproof.__all__:
        assert getattr(shardproof, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        shardproof.nothing  # noqa: B018


def test_mesh() -> None:
    assert Mesh(dp=2, tp=4).size == 8
    assert str(Mesh(dp=2, tp=4)) == "dp=2, tp=4"
    assert Mesh(tp="N").extent("tp") == symbol("N")
    assert Mesh(tp=2 * symbol("N")).size == 2 * symbol("N")
    for wrong in (0, -1, 2.5, True, "2", "a b"):
        with pytest.raises(InputError, match="the mesh axis 'tp' has size"):
            Mesh(tp=wrong)  # type: ignore[arg-type]


def test_graphs_from_paths_texts_and_objects(tmp_path: Path) -> None:
    plain, packed = tmp_path / "seq.txt", tmp_path / "r0.txt.xz"
    plain.write_text(SEQUENTIAL)
    packed.write_bytes(lzma.compress(RANKS[0].encode()))
    graph = parse_graph(RANKS[1], infer_types).graph
    problem = spec(sequential=plain, distributed=[str(packed), graph]).resolve()
    assert [g.rank for g in problem.distributed.graphs] == [0, 1]
    assert problem.name == "seq"
    assert spec(name="mine").resolve().name == "mine"
    program = Program(GraphMesh.of(tp=2), problem.distributed.graphs)
    assert spec(distributed=program).resolve().distributed is program
    with pytest.raises(InputError, match="the graph says mesh tp=2, the Spec says dp=2"):
        spec(distributed=program, mesh=Mesh(dp=2)).resolve()


def test_a_written_graph_is_its_own_source(tmp_path: Path) -> None:
    path = tmp_path / "seq.txt"
    path.write_text(SEQUENTIAL.replace("%s = exp(%h)", '%s = exp(%h) !{file="m.py", line=3}'))
    h, s = spec(sequential=path).resolve().sequential.nodes
    assert str(h.origin) == f"{path}:4"
    assert h.origin.code == "%h = matmul(%x, %w)"
    assert str(s.origin) == "m.py:3"


def test_a_single_graph_is_one_rank_or_all_ranks() -> None:
    one = spec(distributed=SEQUENTIAL, mesh=None, inputs={"*": Replicate()}).resolve()
    assert one.distributed.graphs[0].rank == 0
    assert not one.distributed.spmd
    inputs = {"x": Replicate(), "w1": Shard(1), "w2": Shard(0)}
    everyone = spec(sequential=SYMBOLIC_SEQUENTIAL, distributed=SPMD, inputs=inputs, mesh=None)
    assert everyone.resolve().distributed.spmd


def test_resolving_is_done_once() -> None:
    once = spec()
    assert once.resolve() is once.resolve()


def test_names() -> None:
    assert spec().named("a").name == "a"
    assert spec(name="b").named("a").name == "b"


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"distributed": RANKS[:1]}, "1 graphs for a mesh of 2 rank(s)", "distributed"),
    ({"mesh": Mesh(tp=4)}, "2 graphs for a mesh of 4 rank(s)", "distributed"),
    ({"mesh": Mesh(tp="N")}, "2 graphs for a mesh of N rank(s)", "distributed"),
    (
        {"distributed": RANKS[::-1]},
        "the graph given for rank 0 says that it is rank 1",
        "distributed[0]",
    ),
    ({"distributed": [RANKS[0]] * 2}, "the same graph is given for two ranks", "distributed"),
    ({"distributed": RANKS[1]}, "one graph, of rank 1, for a mesh of 2 ranks", "distributed"),
    ({"distributed": SPMD}, "the graph says mesh tp=N, the Spec says tp=2", "mesh"),
    (
        {"distributed": [t.replace("tp=2", "dp=2") for t in RANKS]},
        "the graph says mesh dp=2, the Spec says tp=2",
        "mesh",
    ),
    ({"sequential": "nowhere.txt"}, "cannot read nowhere.txt: No such file", "nowhere.txt"),
    ({"sequential": 3}, "3 is no graph", "Spec.from_graphs"),
    ({"sequential": "graph g\n%x = input f3[2]"}, "unknown element type 'f3'", "<text>:2:12"),
    (
        {"sequential": "graph g\nrank 1\n%x = input f32[2]\n%y = all_reduce(%x) "
         '{op="sum", group=(0, 0)}\nreturn %y'},
        "names a rank twice",
        "<text>",
    ),
    ({"mesh": 3}, "mesh is 3", "mesh"),
    ({"inputs": None}, "'x'", "inputs, rank 0"),
    ({"inputs": [1]}, "inputs is [1]", "inputs"),
    ({"outputs": 3}, "outputs is 3", "outputs"),
    ({"free": [3]}, "free is [3]", "free"),
    ({"fixed": "x"}, "fixed is 'x'", "fixed"),
    ({"kernels": {"a": 3}}, "3 is of no use here", "kernels['a']"),
    ({"constants": {"a": "x"}}, "'x' is of no use here", "constants['a']"),
    ({"distributed": 3}, "distributed is 3", "distributed"),
    ({"dropout": "on"}, "dropout='on'", "Spec.from_graphs"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "what", "where"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_wrong_specs(more: dict[str, Any], what: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        spec(**more).resolve()
    assert what in caught.value.what
    assert caught.value.where == where
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.txt", b"\xff\xfe\n", "line 1 is not UTF-8 text"),
        ("a.xz", b"no xz", "not an xz file"),
        ("a.txt", b"graph g\n" + b"#" * (65 << 20), "it has more than 64 MiB"),
        ("a.xz", lzma.compress(b"graph g\n" + b"#" * (65 << 20), preset=0), "more than 64 MiB"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        spec(sequential=path).resolve()
    assert what in caught.value.what
    assert caught.value.where == str(path)


def test_members_of_groups() -> None:
    mesh = GraphMesh.of(dp=2, tp=2)
    assert members("g", "tp", 3, mesh) == (2, 3)
    assert members("g", "dp", 3, mesh) == (1, 3)
    assert members("g", ("dp", "tp"), 3, mesh) == (0, 1, 2, 3)
    assert members("g", "all", 3, mesh) == (0, 1, 2, 3)
    assert members("g", "self", 3, mesh) == (3,)
    assert members("g", [0, 1], 1, mesh) == (0, 1)
    assert members("g", [(0, 1), (2, 3)], 3, mesh) == (2, 3)
    assert members("g", [(0, 1)], 3, mesh) == (0, 1)
    assert members("g", lambda r: [r, r + 1], 1, mesh) == (1, 2)
    assert members("g", "tp", 0, GraphMesh(())) == (0,)
    with pytest.raises(InputError, match="'pp' is not a mesh axis"):
        members("g", "pp", 0, mesh)
    with pytest.raises(InputError, match="3 is no group"):
        members("g", 3, 0, mesh)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the function failed for rank 0: ZeroDivision"):
        members("g", lambda r: [1 // r], 0, mesh)


def test_facts_are_assumptions_where_the_importer_used_them() -> None:
    def doubled(ctx: Any, x: Any) -> Any:
        """Twice its argument."""
        return ctx.scale(x, 2)

    text = (
        "class G(torch.nn.Module):\n"
        '    def forward(self, x: "f32[8]"):\n'
        '        y: "f32[8]" = torch.ops.my.double.default(x)\n'
        '        z: "f32[8]" = torch.ops._c10d_functional.all_reduce.default(y, "sum", "42")\n'
        "        return (z,)\n"
    )
    problem = spec(
        sequential=text,
        distributed=[text, text + "\n"],
        inputs={"x": Replicate()},
        groups={"42": "tp", "unused": "self"},
        kernels={"my.double": doubled},
    ).resolve()
    texts = [(a.kind, a.text) for a in problem.assumptions]
    assert ("kernel", "my.double means: Twice its argument.") in texts
    assert ("group", "group '42' is ranks 0, 1") in texts
    assert not any("unused" in text for _, text in texts)


def test_printed_graphs_in_the_wrong_order() -> None:
    files = graph_files("gpt/tp2_layers1")
    with pytest.raises(InputError, match="given for rank 0 says that it is rank 1") as caught:
        spec(
            sequential=graph_files("gpt/tp1_layers1")[0],
            distributed=files[::-1],
            groups={"7": "self"},
        ).resolve()
    assert caught.value.where.endswith("fw.g0.r1.fx.txt.xz:28")


def test_ranks_are_counted_before_anything_is_read() -> None:
    with pytest.raises(InputError, match=r"1 graphs for a mesh of 2 rank\(s\)"):
        spec(sequential="nowhere", distributed=["nowhere"]).resolve()


def test_graphs_that_are_not_well_formed_are_refused() -> None:
    graph = parse_graph(SEQUENTIAL, infer_types).graph
    graph.nodes.reverse()
    with pytest.raises(InputError, match="uses %h before it is defined") as caught:
        spec(sequential=graph).resolve()
    assert caught.value.where == "sequential"
    parts = [parse_graph(text, infer_types).graph for text in RANKS]
    parts[1].rank = 0
    with pytest.raises(InputError, match=r"the graphs are those of ranks \[0, 0\]"):
        spec(distributed=Program(GraphMesh.of(tp=2), parts)).resolve()


def test_casts_of_one_side_are_listed() -> None:
    text = (
        "class G(torch.nn.Module):\n"
        '    def forward(self, x: "f32[8]"):\n'
        '        y: "f32[8]" = torch.ops.aten.exp.default(x)\n'
        "        return (y,)\n"
    )
    to_half = '        z: "bf16[8]" = torch.ops.aten._to_copy.default(y, dtype = torch.bfloat16)\n'
    cast = text.replace("        return (y,)", to_half + "        return (z,)")
    problem = spec(
        sequential=text, distributed=cast, mesh=None, inputs={"x": Replicate()}
    ).resolve()
    texts = [a.text for a in problem.assumptions if a.kind == "cast"]
    assert "only the distributed side casts f32 to bf16: taken as equal" in texts
