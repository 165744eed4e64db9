"""Explain why ranks cannot go on: who waits where for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardproof.collectives.errors import ErrorKind, ProtocolError, Site, site
from shardproof.ir.communicators import communicator
from shardproof.ir.graph import NO_ORIGIN, Node


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call that was issued and met nobody. ``absent``: the members that have not arrived for
    it; ``stops``: its rank cannot go on before it is matched."""

    rank: int
    node: Node
    key: tuple[object, ...]
    members: tuple[int, ...]
    absent: tuple[int, ...]
    stops: bool

    @property
    def site(self) -> Site:
        comm = communicator(self.node)
        other = f" on process group {int(comm) + 1} over the same ranks" if comm.isdigit() else ""
        return site(self.rank, self.node, f"waits for {_ranks(self.absent)}{other}")


def explain_stuck(arrivals: Iterable[Arrival], returned: set[int]) -> list[ProtocolError]:
    """Findings for ranks that stand still: members that never arrive, and cycles of waiting."""
    stopped = {a.rank: a for a in arrivals if a.stops}
    if not stopped:
        return []
    found = _never_arrive(stopped.values(), returned)
    return found + _cycles(stopped)


def explain_leftovers(arrivals: Iterable[Arrival]) -> list[ProtocolError]:
    """Findings for calls in flight at the end: nobody was stopped by them, nobody met them."""
    by_key: dict[object, list[Arrival]] = {}
    for a in arrivals:
        by_key.setdefault((a.key, a.node.op if _is_pair(a) else ""), []).append(a)
    return [_absence(group) for group in by_key.values()]


def _never_arrive(stopped: Iterable[Arrival], returned: set[int]) -> list[ProtocolError]:
    by_key: dict[object, list[Arrival]] = {}
    for a in stopped:
        if any(r in returned for r in a.absent):
            by_key.setdefault(a.key, []).append(a)
    return [_absence(group, returned) for group in by_key.values()]


def _absence(group: list[Arrival], returned: set[int] | None = None) -> ProtocolError:
    first = group[0]
    absent = [r for r in first.absent if returned is None or r in returned]
    kind: ErrorKind = "unmatched" if _is_pair(first) else "missing"
    if _is_pair(first):
        other = "recv" if first.node.op == "send" else "send"
        text = f"{first.node.op} on rank {first.rank} has no {other} on {_ranks(absent)}"
    else:
        text = f"{first.node.op} over {_ranks(first.members)}: {_ranks(absent)} never arrives"
    gone = tuple(Site(r, None, "", NO_ORIGIN, "has ended") for r in absent)
    return ProtocolError(kind, text, first.members, tuple(a.site for a in group) + gone)


def _cycles(stopped: dict[int, Arrival]) -> list[ProtocolError]:
    """One finding a cycle of "rank waits for rank"; ranks that only wait for a cycle are not
    named, as they move once the cycle is mended."""
    found: dict[frozenset[int], ProtocolError] = {}
    done: set[int] = set()
    for start in stopped:
        path: list[int] = []
        at: int | None = start
        while at is not None and at not in done and at not in path:
            path.append(at)
            at = next((r for r in stopped[at].absent if r in stopped), None)
        done |= set(path)
        if at is None or at not in path:
            continue
        cycle = path[path.index(at) :]
        text = "ranks wait for each other: " + " -> ".join(map(str, [*cycle, at]))
        sites = tuple(stopped[r].site for r in cycle)
        found[frozenset(cycle)] = ProtocolError("deadlock", text, tuple(sorted(cycle)), sites)
    return list(found.values())


def _is_pair(a: Arrival) -> bool:
    return a.key[0] == "p2p"


def _ranks(ranks: Iterable[int]) -> str:
    listed = list(ranks)
    return ("rank " if len(listed) == 1 else "ranks ") + ", ".join(map(str, listed))
