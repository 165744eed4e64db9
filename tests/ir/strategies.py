"""Random graphs for property tests: everything that the text form must carry."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from shardproof.ir.graph import DTYPES, Graph, Mesh, Node, Origin, TensorType, Value
from shardproof.ir.sizes import Size, symbol

MESH = Mesh.of(dp=2, tp=symbol("N"))
_ATOMS: list[Size] = [
    symbol("N"), symbol("S"), symbol("h_2"), MESH.index("tp"), MESH.index("dp"), 2, 3,
]  # fmt: skip

words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    """A small polynomial."""
    out: Size = draw(st.integers(-4, 4))
    for _ in range(draw(st.integers(0, 3))):
        atom = draw(st.sampled_from(_ATOMS))
        out = out * atom if draw(st.booleans()) else out + draw(st.integers(-3, 3)) * atom
    return out


attributes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False)
    | st.fractions()
    | st.text(max_size=12)
    | sizes(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
types = st.builds(
    TensorType,
    st.sampled_from(sorted(DTYPES)),
    st.lists(sizes(), max_size=3).map(tuple),
)
origins = st.builds(
    Origin,
    file=st.text(max_size=8),
    line=st.integers(0, 99),
    function=st.text(max_size=8),
    code=st.text(max_size=20),
    module=words,
    phase=st.sampled_from(["", "forward", "backward"]),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A graph whose operators need not exist: the text form knows no operators."""
    names = draw(
        st.lists(words | st.text(max_size=6) | words.map("{}#1".format), unique=True, min_size=1)
    )
    values = [Value(n, draw(types)) for n in names]
    cut = draw(st.integers(0, len(values)))
    graph = Graph(draw(words | st.text(max_size=5)), rank=draw(st.none() | st.integers(0, 9)))
    graph.inputs = values[:cut]
    while cut < len(values):
        count = draw(st.integers(1, min(3, len(values) - cut)))
        operands = tuple(draw(st.lists(st.sampled_from(values[:cut]), max_size=3)) if cut else ())
        attrs = draw(st.dictionaries(words.filter(lambda w: w != "group"), attributes, max_size=3))
        node = Node(draw(words), operands, attrs, tuple(values[cut : cut + count]))
        node.origin = draw(st.just(Origin()) | origins)
        node.source = draw(st.text(max_size=5))
        graph.nodes.append(node)
        cut += count
    outputs = draw(st.lists(st.none() | st.sampled_from(values), max_size=4))
    graph.outputs = list(outputs)
    graph.output_names = [
        draw(words | st.text(max_size=4) | st.just(v.name if v else f"none{k}"))
        for k, v in enumerate(outputs)
    ]
    return graph


def as_data(graph: Graph) -> object:
    """Everything in a graph, comparable: values are compared by name and type."""

    def exact(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(exact, value))
        return (type(value).__name__, str(value) if isinstance(value, Fraction) else value)

    return (
        graph.name,
        graph.rank,
        [(v.name, v.type) for v in graph.inputs],
        [
            (
                n.op,
                [v.name for v in n.inputs],
                {k: exact(v) for k, v in n.attrs.items()},
                [(v.name, v.type) for v in n.outputs],
                n.origin,
                n.source,
            )
            for n in graph.nodes
        ],
        [v and v.name for v in graph.outputs],
        graph.output_names,
    )
