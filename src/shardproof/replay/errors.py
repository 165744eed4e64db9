"""Why a replay stopped."""

from __future__ import annotations

from shardproof.collectives.errors import node_name
from shardproof.ir.graph import Node


class ReplayError(Exception):
    """Base of everything a replay can stop with."""


class NotReplayable(ReplayError):
    """A program that cannot be run: an operator without numeric meaning, a symbolic size, a
    protocol violation, or an input that nothing defines."""


class ReplayFault(ReplayError):
    """The program itself went wrong at ``node`` on ``rank``, e.g. an index out of range."""

    def __init__(self, rank: int, node: Node, reason: str) -> None:
        where = f" at {node.origin}" if node.origin.file else ""
        super().__init__(f"rank {rank}: {node.op} {node_name(node)}{where}: {reason}")
        self.rank = rank
        self.node = node
        self.reason = reason
