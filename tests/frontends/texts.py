"""Small printed graphs in the forms that different printers give them."""

from __future__ import annotations

PLAIN = """\
# Graph[rank=0](fw, gid=0)
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[8, 16]", arg1_1: "f32[16]"):
        # No stacktrace found for following nodes
        _tensor_constant0 = self._tensor_constant0;  _tensor_constant0 = None

         # File: model/mlp.py:12 in forward, code: y = x * 2.5  # in, code: x
        mul: "f32[8, 16]" = torch.ops.aten.mul.Tensor(arg0_1, 2.5, dtype = torch.float32, \
other = (1, -2, None, 'a;b#c', True));  arg0_1 = None

        # No stacktrace found for following nodes
        max_1 = torch.ops.aten.max.dim(mul, -1);  mul = None
        getitem: "f32[8]" = max_1[0];  max_1 = arg1_1 = None
        return [getitem, None, arg1_1]

"""

JOINT = """\
class joint_helper(torch.nn.Module):
    def forward(self, primals, tangents):
        primals_1: "f32[4]"; primals_2: "f32[4]"; tangents_1: "f32[4]"; \n
    \n
        primals_1, primals_2, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], \
self._in_spec)
        # File: a.py:1 in f, code: x * y
        mul: "f32[4]" = torch.ops.aten.mul.Tensor(primals_1, primals_2);  primals_1 = None
        mul_1: "f32[4]" = torch.ops.aten.mul.Tensor(tangents_1, primals_2);  tangents_1 = None
        return pytree.tree_unflatten([mul, None, mul_1], self._out_spec)
"""

_COLOURED = (
    PLAIN.replace("def forward", "\x1b[34mdef\x1b[0m forward")
    .replace('"f32[8, 16]" =', '"\x1b[31mf32\x1b[0m\x1b[34m[8, 16]\x1b[0m" =')
    .replace("mul:", "\x1b[2mmul\x1b[0m:")
)
ANSI = _COLOURED

_BODY = PLAIN.split("\n", 1)[1]
_PREFIX = "I1130 20:00:38.743000 4764 torch/_functorch/graph_compile.py:1833] [0/0] [__aot_graphs] "


def log(text: str, prefix: str = _PREFIX) -> str:
    """Text as a logger prints it."""
    return "".join(prefix + line + "\n" for line in text.split("\n"))


LOGGED = (
    "some other output of the program\n"
    + log("TRACED GRAPH\n ===== Forward graph 0 =====\n" + _BODY.replace("<lambda>", "GraphModule"))
    + "class Unrelated(torch.nn.Module):\n"
    + log(
        "TRACED GRAPH\n ===== Backward graph 0 =====\n <eval_with_key>.2 "
        + JOINT.replace("joint_helper", "GraphModule")
    )
)

MULTI_LINE = """\
class GraphModule(torch.nn.Module):
    def forward(
        self,
        x: "f32[s0, 16][16, 1]cpu",  # a comment
        s: "Sym(s0)",
    ) -> "f32[s0, 16]":
        mul: "Sym(4*s0)" = s * 4;  s = None
        # Annotation: {'pp': 1} File: b.py:3 in g, code: x.view(-1)
        view: "f32[4*s0, 4]" = torch.ops.aten.view.default(x, [mul, 4]);  x = mul = None
        return view
"""

_TINY = """\
class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[{0}]"):
        neg: "f32[{0}]" = torch.ops.aten.neg.default(x);  x = None
        return (neg,)
"""
TWO_RANKS = "".join(
    a + b
    for a, b in zip(
        log(_TINY.format(4), "[rank0]:" + _PREFIX).splitlines(keepends=True),
        log(_TINY.format(5), "[rank1]:" + _PREFIX).splitlines(keepends=True),
        strict=True,
    )
)


def module(inputs: str, *lines: str, returns: str) -> str:
    """A small printed graph: ``module('x: "f32[4]"', "y = ...", returns="y")``."""
    body = "".join(f"        {line}\n" for line in (*lines, f"return ({returns},)"))
    return f"class GraphModule(torch.nn.Module):\n    def forward(self, {inputs}):\n{body}"
