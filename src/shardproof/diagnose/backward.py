"""Gradients that are wrong although the forward pass is proved: the backward of a collective."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import prod

from shardproof.diagnose.classify import ratio_of
from shardproof.diagnose.partials import BACKWARD
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.infer.blocks import Val
from shardproof.infer.run import Inference, Judged
from shardproof.ir.graph import Value, is_float


class Backward:
    """Whether a cause is in the backward pass of one inference, and which."""

    def __init__(self, inf: Inference, tracer: Tracer) -> None:
        self.inf, self.tracer = inf, tracer
        self.forward = self._forward()

    def _forward(self) -> dict[str, bool]:
        """The outputs of the forward pass, and whether they are proved. A zero is none: it stands
        for a gradient that did not arrive."""
        graphs = self.inf.problem.distributed.graphs
        names: dict[str, bool] = {}
        for j in self.inf.judged:
            value = graphs[j.graph].output(j.obligation.dist_output)
            node = self.tracer.node((j.graph, value)) if value is not None else None
            if node is not None and node.origin.phase == "forward" and not is_zero(j.found):
                name = j.obligation.seq_output
                names[name] = names.get(name, True) and j.holds
        return names

    def told(self, code: str, site: Site, judged: Judged) -> tuple[str, str] | None:
        """Code and message, where the cause is in the backward pass behind a forward pass in which
        nothing is wrong."""
        node = site.node
        phase = node.origin.phase if node is not None else ""
        if not phase or not all(self.forward.values()):
            return None
        if code == "SP203" and is_zero(judged.found):
            said: str | None = (
                f"{judged.obligation.dist_output} is zero; no gradient arrives there: a step on "
                "the way is hidden from autograd, or what arrived was never reduced into it (no "
                "gradient synchronisation)"
            )
        else:
            said = self._said(code, site, judged) if phase == BACKWARD else None
        if said is None:
            return None
        proved = ", ".join(self.forward)
        head = f"the forward pass is proved ({proved}), its gradient is wrong: " if proved else ""
        return "SP127", head + said

    def _said(self, code: str, site: Site, judged: Judged) -> str | None:
        name = site.value.name
        if code == "SP121":
            copy = self._dropped(site)
            return (
                None
                if copy is None
                else (
                    f"%{copy.name} is the sum over the ranks and is used nowhere; the backward "
                    f"pass goes on with %{name}, this rank's part of it"
                )
            )
        if code == "SP203":
            return f"%{name} is another value than the sequential backward pass has"
        if not self.forward:
            return None
        if code == "SP112":
            n = self._share(judged)
            if n is None or self._reduced((site.rank, site.value)):
                return None
            return f"%{name} is 1/{n} of it on each of {n} ranks, and nothing adds the shares up"
        return (
            f"%{name} has no counterpart in the sequential backward pass, although the value that "
            "it belongs to has one in the forward pass"
        )

    def _dropped(self, site: Site) -> Value | None:
        """The result of a collective on the value, or on what it was passed on from, that nothing
        uses."""
        graph = self.inf.problem.distributed.graphs[site.rank]
        mine = {p[1] for p in self.tracer.carriers((site.rank, site.value))}
        used = {v for n in graph.nodes for v in n.inputs} | set(graph.outputs)
        for node in graph.nodes:
            if "group" in node.attrs and mine & set(node.inputs):
                unused = [v for v in node.outputs if v not in used]
                if unused and is_float(unused[0].dtype):
                    return unused[0]
        return None

    def _share(self, judged: Judged) -> int | None:
        """The number of ranks of which each has the same fraction of the gradient."""
        if judged.found is None or judged.expected is None:
            return None
        ratio = ratio_of(judged.found, judged.expected)
        if not isinstance(ratio, Fraction) or ratio.numerator != 1:
            return None
        extents = [n for _, n in self.inf.problem.distributed.mesh.axes if isinstance(n, int)]
        sizes = {prod(c) for k in range(1, len(extents) + 1) for c in combinations(extents, k)}
        n = ratio.denominator
        return n if n > 1 and n in sizes else None

    def _reduced(self, place: Place) -> bool:
        """Whether a collective is on the way to a value."""
        nodes = [self.tracer.node(p) for p in self.tracer.carriers(place)]
        return any(n is not None and "group" in n.attrs for n in nodes)


def is_zero(v: Val | None) -> bool:
    """Whether a value is known to be zero everywhere."""
    return v is not None and not any(c.lin for c in v.cells)
