"""Protocol findings as data: what the ranks of a program disagree about, with a site per rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardproof.ir.graph import Node, Origin

ErrorKind = Literal[
    "order",  # the members call the collectives of a group in different orders
    "kind",  # all_gather meets reduce_scatter
    "op",  # sum meets max
    "dim",  # dim, split_dim or concat_dim differ
    "src",  # broadcast roots differ
    "sizes",  # per-member extents differ or do not fit
    "shape",
    "dtype",
    "group",  # not a member, rank order differs, member without a graph, unknown mesh axis
    "group_size",
    "missing",  # a member never arrives
    "unmatched",  # a send without a receive or the reverse
    "deadlock",  # ranks wait for each other in a cycle
    "use_before_wait",
    "unsupported",  # send/recv in a graph written once for all ranks
]


@dataclass(frozen=True, slots=True)
class Site:
    """Where one rank stands. ``node`` is None for a rank that has already returned;
    ``detail`` says what is particular about this rank (``op=sum``, ``waits for ranks 1, 3``)."""

    rank: int
    node: Node | None
    name: str
    origin: Origin
    detail: str = ""

    def __str__(self) -> str:
        what = f"{self.node.op} {self.name}" if self.node is not None else "returned"
        return f"rank {self.rank}: {what}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class ProtocolError:
    """One disagreement. ``group``: the ranks (or axis names) concerned, in the group order of
    the first site; for send/recv the pair (source, destination)."""

    kind: ErrorKind
    message: str
    group: tuple[int | str, ...]
    sites: tuple[Site, ...]

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a site, ascending, each once."""
        return sorted({s.rank for s in self.sites})

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}", *(f"  {s}" for s in self.sites)]
        return "\n".join(lines)


def node_name(node: Node) -> str:
    """The node's name in the captured graph, else that of its first output, else its operator."""
    return node.source or (node.outputs[0].name if node.outputs else node.op)


def site(rank: int, node: Node, detail: str = "") -> Site:
    """The site of ``node`` on ``rank``."""
    return Site(rank, node, node_name(node), node.origin, detail)
