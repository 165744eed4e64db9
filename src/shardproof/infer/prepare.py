"""Turn a problem over concrete ranks into one over rank symbols, as far as its ranks are alike."""

from __future__ import annotations

from itertools import combinations

from shardproof.collectives.validate import messages_differ
from shardproof.infer.spmd import Classes, Fold, NotUniform
from shardproof.ir.graph import Graph, Program
from shardproof.spec.problem import Obligation, Problem


def fold_problem(problem: Problem) -> Problem:
    """The same problem with the rank as an index.

    Raises:
        NotUniform: the ranks, their inputs' relations or their obligations differ in more than
            rank-affine attributes.
    """
    program = problem.distributed
    fold = Fold(program.mesh)
    obligations = []
    for ob in problem.obligations:
        expected = [g for g in ob.expected if g is not None]
        if len(expected) != len(ob.expected):
            raise NotUniform("an output is not returned by every rank")
        obligations.append(_with_expected(ob, [fold.graph(expected)]))
    return _with_parts(problem, fold.program(program), [fold.graph(problem.relation)], obligations)


def class_problem(problem: Problem) -> Problem:
    """The same problem with one graph a class of ranks, where ranks differ along some mesh axes
    (pipeline stages) and are alike along the others.

    Raises:
        NotUniform: along no axis are all ranks alike.
    """
    differ = messages_differ(problem.distributed.graphs)
    if differ:
        raise NotUniform(differ)
    mesh = problem.distributed.mesh
    axes = [a for a, n in mesh.axes if n != 1]
    sizes = dict(mesh.axes)
    subsets = [s for k in range(len(axes) - 1, 0, -1) for s in combinations(axes, k)]

    def ranks(s: tuple[str, ...]) -> int:
        out = 1
        for a in s:
            n = sizes[a]
            assert isinstance(n, int)
            out *= n
        return out

    for inner in sorted(subsets, key=ranks, reverse=True):
        try:
            return _by_class(problem, Classes(mesh, inner))
        except NotUniform:
            continue
    raise NotUniform("the ranks differ along every mesh axis")


def _by_class(problem: Problem, classes: Classes) -> Problem:
    folds = [Fold(classes.inner, classes, c) for c in range(len(classes.ranks))]

    def folded(graphs: list[Graph | None]) -> list[Graph | None]:
        out: list[Graph | None] = []
        for fold, members in zip(folds, classes.ranks, strict=True):
            mine = [g for r in members if (g := graphs[r]) is not None]
            if mine and len(mine) != len(members):
                raise NotUniform("an output is not returned by every rank of a class")
            out.append(fold.graph(mine) if mine else None)
        return out

    graphs = [g for g in folded(list(problem.distributed.graphs)) if g is not None]
    relation = [g for g in folded(list(problem.relation)) if g is not None]
    for c, g in enumerate(graphs):
        g.rank = c
    program = Program(classes.outer, graphs, inner=classes.inner)
    obligations = [_with_expected(ob, folded(list(ob.expected))) for ob in problem.obligations]
    return _with_parts(problem, program, relation, obligations)


def _with_expected(ob: Obligation, expected: list[Graph | None]) -> Obligation:
    return Obligation(ob.seq_output, ob.dist_output, expected, ob.placement, ob.partial_over)


def _with_parts(
    problem: Problem, program: Program, relation: list[Graph], obligations: list[Obligation]
) -> Problem:
    return Problem(
        problem.name,
        problem.sequential,
        program,
        relation,
        obligations,
        problem.assumptions,
        problem.left_out,
    )
