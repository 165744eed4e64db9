"""Small programs in the text form, for the tests of reports. None of them needs PyTorch."""

from __future__ import annotations

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.present.build import build
from shardproof.report.diagnostic import Verdict
from shardproof.report.view import GraphView, Row, View

SEQUENTIAL = """\
graph block
%x = input f32[6, 8]
%w1 = input f32[8, 16]
%w2 = input f32[16, 8]
%h = matmul(%x, %w1)
%a = gelu(%h) {approximate="none"}
%o = matmul(%a, %w2)
%y = add(%o, %x)
%z = exp(%y)
return %z
"""


def rank(k: int, total: bool = True) -> str:
    """One rank of four; ``total`` is whether the parts are added up."""
    gather = '%o = all_reduce(%p) {op="sum", group=(0, 1, 2, 3)}\n' if total else ""
    return f"""\
graph part
rank {k}
mesh tp=4
%x = input f32[6, 8]
%w1 = input f32[8, 4]
%w2 = input f32[4, 8]
%h = matmul(%x, %w1)
%a = gelu(%h) {{approximate="none"}}
%p = matmul(%a, %w2)
{gather}%y = add(%{"o" if total else "p"}, %x)
%z = exp(%y)
return %z
"""


def block(total: bool = True) -> Spec:
    """A tensor-parallel block on four ranks."""
    return Spec.from_graphs(
        name="Block, tp=4",
        sequential=SEQUENTIAL,
        distributed=[rank(k, total) for k in range(4)],
        mesh=Mesh(tp=4),
        inputs={"x": Replicate(), "w1": Shard(1), "w2": Shard(0)},
        outputs={"z": Replicate()},
    )


def symbolic() -> Spec:
    """The same for every number of ranks."""
    sequential = SEQUENTIAL.replace("graph block\n", "graph block\nsizes N, f\n")
    for a, b in (("[8, 16]", "[8, N*f]"), ("[16, 8]", "[N*f, 8]")):
        sequential = sequential.replace(a, b)
    every = rank(0).replace("rank 0\nmesh tp=4\n", "mesh tp=N\nsizes f\n")
    for a, b in (("[8, 4]", "[8, f]"), ("[4, 8]", "[f, 8]"), ("(0, 1, 2, 3)", '("tp",)')):
        every = every.replace(a, b)
    return Spec.from_graphs(
        name="Block, every tp",
        sequential=sequential,
        distributed=every,
        mesh=Mesh(tp="N"),
        inputs={"x": Replicate(), "w1": Shard(1), "w2": Shard(0)},
        outputs={"z": Replicate()},
    )


def disordered() -> Spec:
    """Two collectives in another order on the last rank."""
    text = """\
graph part
rank {k}
mesh tp=2
%x = input f32[4]
%y = input f32[4]
{first}
{second}
%c = add(%a, %b)
return %c
"""
    a = '%a = all_reduce(%x) {op="sum", group=(0, 1)}'
    b = '%b = all_reduce(%y) {op="max", group=(0, 1)}'
    orders = [(a, b), (b, a)]
    return Spec.from_graphs(
        name="Order",
        sequential="graph s\n%x = input f32[4]\n%y = input f32[4]\n%c = add(%x, %y)\nreturn %c\n",
        distributed=[text.format(k=k, first=f, second=s) for k, (f, s) in enumerate(orders)],
        mesh=Mesh(tp=2),
        inputs={"x": Replicate(), "y": Replicate()},
        outputs={"c": Replicate()},
    )


def unproved() -> Spec:
    """A function in two spellings, which no lemma says to be equal."""
    head = "graph g\n%x = input f32[4]\n"
    spelled = (
        "%n = neg(%x)\n%a = exp(%x)\n%b = exp(%n)\n%d = sub(%a, %b)\n%z = scale(%d) {by=1/2}\n"
    )
    return Spec.from_graphs(
        name="Two spellings",
        sequential=head + "%z = sinh(%x)\nreturn %z\n",
        distributed=head + spelled + "return %z\n",
        inputs={"x": Replicate()},
    )


def checked(spec: Spec) -> tuple[Verdict, View]:
    """The verdict of a Spec and its view."""
    seen: list[object] = []
    verdict = spec.check(observe=seen.append)
    return verdict, build(verdict, seen[-1])  # type: ignore[arg-type]


def large(nodes: int) -> View:
    """A made-up view with this many operators in the two graphs together, 40 a layer."""
    texts = [""]
    index = {"": 0}

    def text(t: str) -> int:
        if t not in index:
            index[t] = len(texts)
            texts.append(t)
        return index[t]

    def graph(label: str, ranks: list[int], n: int) -> GraphView:
        rows = []
        for k in range(n):
            layer, part = divmod(k, 40)
            module = f"forward/layers/{layer}/{'attention' if part < 20 else 'mlp'}"
            rows.append(
                Row(
                    f"value_{k}", text("matmul" if part % 4 == 0 else "add"), text("f32[8, 16]"),
                    [k - 1] if k else [], 0, text(module), text(f"model.py:{part} in forward"),
                    text(f"x = f{part}(x)"), text(f"value_{k}[0:8, 0:16]") if ranks else 0,
                    -1, k if ranks else -1, 1 if ranks else 0,
                )
            )  # fmt: skip
        return GraphView(label, ranks, rows, [("out", n - 1)])

    half = nodes // 2
    graphs = [graph("sequential", [], half), graph("ranks 0, 1", [0, 1], nodes - half)]
    return View(mesh=[("tp", "2")], ranks="2", texts=texts, graphs=graphs)
