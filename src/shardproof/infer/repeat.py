"""Evaluate the nodes of one graph in order (repeated layers are taken up here)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardproof.ir.graph import Graph

if TYPE_CHECKING:
    from shardproof.infer.collect import CollectSpmd
    from shardproof.infer.run import Env, Runner


class Replayer:
    """Runs a graph whose nodes stand in execution order."""

    def __init__(
        self,
        runner: Runner,
        graph: Graph,
        env: Env,
        where: Any,
        collect: CollectSpmd | None = None,
    ) -> None:
        self.runner, self.graph, self.env, self.where = runner, graph, env, where
        self.collect = collect

    def run(self) -> None:
        for node in self.graph.nodes:
            self.runner.ev.table.site = (self.where, node)
            if self.collect is not None and "group" in node.attrs:
                vals = self.runner.spmd_collective(node, self.env, self.collect)
            else:
                vals = self.runner.node(node, self.env)
            for v, val in zip(node.outputs, vals, strict=True):
                self.env[v] = val
