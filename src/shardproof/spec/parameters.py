"""How the parameters of a live program lie on the ranks: declared, or proposed.

The order: the user's patterns, DTensor placements, then names and shapes. Two possible readings
are never chosen from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from shardproof.errors import InputError, shorten
from shardproof.frontends.paths import may_mean
from shardproof.ir.graph import Mesh
from shardproof.spec.arguments import argument_error
from shardproof.spec.expression import (
    Expr,
    Indexed,
    Joined,
    Permuted,
    Placed,
    Reshaped,
    Source,
)
from shardproof.spec.patterns import unknown_name
from shardproof.spec.placement import Parts, Replicate, Shard, is_placement
from shardproof.spec.traced import expressions

if TYPE_CHECKING:
    from shardproof.frontends.torch_capture import Captured, Described

# Names that say that a weight is made of several, and of how many.
_FUSED = {
    "qkv": 3, "query_key_value": 3, "in_proj": 3, "c_attn": 3, "wqkv": 3, "q_k_v": 3,
    "gate_up": 2, "up_gate": 2, "kv_proj": 2, "w13": 2, "wkv": 2, "swiglu": 2,
}  # fmt: skip


class ParameterRules:
    """Resolves ``parameters=`` of a live Spec; ``sources`` names the sequential parameter of
    each distributed one, ``proposals`` are the lines that the verdict prints."""

    def __init__(self, mesh: Mesh, sequential: Captured, ranks: list[Captured], given: Any) -> None:
        self.mesh = mesh
        self.sequential = sequential
        self.ranks = ranks
        self.given = given
        self.sources: dict[str, str] = {}
        self.proposals: list[str] = []
        self.free: list[str] = []
        """Buffers that only the ranks have: state of which the sequential program knows nothing."""
        if given != "auto" and not isinstance(given, Mapping) and not callable(given):
            raise argument_error(
                f"parameters is {shorten(repr(given), 60)}",
                "parameters",
                "'auto', a mapping from names or patterns to placements or expressions, or the "
                "function that shards the weights",
            )

    def resolve(self) -> dict[str, Any]:
        """The rule of every parameter and of the optimizer's state.

        Raises:
            InputError: a parameter has no rule, or more than one reading.
        """
        user = self._traced() if callable(self.given) else {}
        user.update(self.given if isinstance(self.given, Mapping) else {})
        names = dict.fromkeys(n for c in self.ranks for n in c.parameters)
        buffers = {n for c in self.ranks for n in c.held.carried}
        rules: dict[str, Any] = {}
        proposed: dict[str, list[str]] = {}
        for name in names:
            key = name if name in user else next((k for k in user if fnmatchcase(name, k)), None)
            if key is not None:
                rules[name] = self._declared(name, user[key])
            elif name in buffers and not self._candidates(name):
                self.free.append(name)
            else:
                rules[name], how = self._proposed(name)
                proposed.setdefault(how, []).append(name)
                if self.sources[name] != name and is_placement(rules[name]):
                    rules[name] = Placed(Source(self.sources[name]), rules[name])
        for key in user:
            if not any(fnmatchcase(n, key) or n == key for n in names):
                raise unknown_name(key, names, "parameter", f"parameters[{key!r}]")
        self.proposals += [
            f"of these, {len(users)} parameter(s) {how}" for how, users in proposed.items()
        ]
        return {**rules, **self._states(rules)}

    def _declared(self, name: str, rule: Any) -> Any:
        self.sources[name] = _source(rule) or name
        return rule

    def _traced(self) -> dict[str, Any]:
        """The rules that the user's own sharding code, run on every rank, comes to."""
        from shardproof.frontends.torch_capture import Example, Step, capture, capture_ranks

        examples = tuple(
            Example(name, d.shape, d.dtype) for name, d in self.sequential.parameters.items()
        )
        axes = tuple((a, int(n)) for a, n in self.mesh.axes)  # type: ignore[arg-type]
        shard = self.given

        def one(rank: int, across: Any) -> Captured:
            return capture(
                lambda mesh, rank: lambda **weights: shard(mesh, rank, weights),
                examples, Step(), rank=rank, axes=axes, distributed=True, across=across,
            )  # fmt: skip

        found = [expressions(c.lowered.graph) for c in capture_ranks(len(self.ranks), one)]
        names = dict.fromkeys(n for e in found for n in e)
        self.proposals.append(f"{len(names)} parameter(s) are read off the sharding code")
        return {
            n: found[0][n]
            if all(e.get(n) == found[0].get(n) for e in found)
            else _by_rank(found, n)
            for n in names
        }

    def _states(self, rules: Mapping[str, Any]) -> dict[str, Any]:
        """Optimizer state lies like its parameter."""
        from shardproof.frontends.torch_capture.placements import rule_of

        out: dict[str, Any] = {}
        for c in self.ranks:
            for name, found in c.states.items():
                owner = c.owner[name]
                source = name.replace(owner, self.sources[owner], 1)
                if name in out:
                    continue
                if found.placements is not None:
                    out[name] = rule_of(name, source, found, self.mesh)
                elif found.shape == c.parameters[owner].shape:
                    out[name] = rebased(rules[owner], source)
                else:
                    out[name] = self._state_by_shape(name, source, found)
                if source != name and is_placement(out[name]):
                    out[name] = Placed(Source(source), out[name])
        return out

    def _state_by_shape(self, name: str, source: str, found: Described) -> Any:
        """State of another shape than its parameter: an optimizer may hold only a part of it."""
        if source not in self.sequential.states:
            return Replicate()
        whole = self.sequential.states[source].shape
        shapes = [c.states[name].shape for c in self.ranks if name in c.states]
        readings = self._readings(name, whole, found.shape) if len(set(shapes)) == 1 else []
        if len(readings) != 1:
            raise InputError(
                f"the state {name!r} is {[list(s) for s in dict.fromkeys(shapes)]} on the ranks, "
                f"the sequential one is {list(whole)}",
                where="parameters='auto'",
                expected="the same shape, or one dim divided by one mesh axis",
                next_step="keep the state as a part along one dim of its parameter's shape",
            )
        self.proposals.append(f"{name} is {_shown(readings[0], self.mesh)}, proposed by shape")
        return readings[0]

    # ------------------------------------------------------------ proposals

    def _proposed(self, name: str) -> tuple[Any, str]:
        from shardproof.frontends.torch_capture.placements import rule_of

        source = self._source_of(name)
        self.sources[name] = source
        found = [c.parameters[name] for c in self.ranks if name in c.parameters]
        if found[0].placements is not None:
            whole = self.sequential.parameters[source].shape
            if found[0].whole != whole:
                raise self._misfit(name, source, f"a DTensor of shape {list(found[0].whole or ())}")
            return rule_of(name, source, found[0], self.mesh), "by DTensor placements"
        return self._by_shape(name, source, found), "proposed by name and shape"

    def _source_of(self, name: str) -> str:
        known = self.sequential.parameters
        if name in known:
            return name
        ends = self._candidates(name)
        if len(ends) == 1:
            return ends[0]
        raise InputError(
            f"no sequential parameter is called {name!r}",
            where="parameters",
            expected=f"one of: {shorten(', '.join(ends or known))}",
            next_step=f'name it: parameters={{"{name}": seq("...").shard(0)}}',
        )

    def _candidates(self, name: str) -> list[str]:
        """Sequential parameters that the name may mean, within a larger or a smaller module."""
        known = self.sequential.parameters
        return [name] if name in known else [k for k in known if may_mean(k, name)]

    def _by_shape(self, name: str, source: str, found: list[Described]) -> Any:
        whole = self.sequential.parameters[source].shape
        shapes = {d.shape for d in found}
        if len(shapes) > 1:
            return self._uneven(name, source, whole, found)
        part = found[0].shape
        readings = self._readings(name, whole, part)
        if len(readings) == 1:
            return readings[0]
        if not readings:
            cut = self._undivided(whole, part)
            raise self._misfit(name, source, f"{list(part)} on every rank", cut)
        shown = [_shown(r, self.mesh) for r in readings]
        fused = [r for r in readings if any(isinstance(p, Parts) for p in r.values())]
        cut = "; Parts cuts each block of a fused weight, Shard the whole of it" if fused else ""
        rule = _shown(fused[0], self.mesh) if fused else shown[0]
        raise InputError(
            f"the parameter {name!r} ({list(part)} of {list(whole)}) can be read in "
            f"{len(readings)} ways: {' or '.join(shown)}",
            where="parameters='auto'",
            expected=f"one reading of every parameter{cut}",
            next_step=f'say which in the Spec, such as parameters={{"{_pattern(name)}": {rule}}} '
            "(from shardproof import Parts, Shard)",
        )

    def _readings(self, name: str, whole: tuple[int, ...], part: tuple[int, ...]) -> list[Any]:
        if whole == part:
            return [Replicate()]
        if len(whole) != len(part):
            return []
        cut = [d for d, (a, b) in enumerate(zip(whole, part, strict=True)) if a != b]
        axes = [(a, int(n)) for a, n in self.mesh.axes if n != 1]  # type: ignore[arg-type]
        out: list[Any] = []
        for plan in _plans(cut, axes, whole, part):
            out.append({axis: Shard(d) for axis, d in plan})
            pieces = _fused_parts(name)
            for axis, d in plan:
                n = dict(axes)[axis]
                if pieces and d == 0 and whole[d] % (pieces * n) == 0:
                    parts = Parts(d, [whole[d] // pieces] * pieces)
                    out.append({a: parts if a == axis else Shard(e) for a, e in plan})
        return out

    def _uneven(
        self, name: str, source: str, whole: tuple[int, ...], found: list[Described]
    ) -> Any:
        """Different sizes on the ranks of a mesh with one axis: consecutive slices."""
        axes = [(a, n) for a, n in self.mesh.axes if n != 1]
        shapes = [d.shape for d in found]
        ranks = {len(s) for s in shapes}
        if len(axes) == 1 and ranks == {len(whole)} and len(found) == len(self.ranks):
            cut = [d for d in range(len(whole)) if any(s[d] != whole[d] for s in shapes)]
            if len(cut) == 1 and sum(s[cut[0]] for s in shapes) == whole[cut[0]]:
                return {axes[0][0]: Shard(cut[0], sizes=[s[cut[0]] for s in shapes])}
        raise self._misfit(name, source, f"{[list(s) for s in shapes]} on the ranks")

    def _undivided(self, whole: tuple[int, ...], part: tuple[int, ...]) -> str:
        """A dim that is cut on the ranks, and that no mesh axis divides."""
        axes = [(a, n) for a, n in self.mesh.axes if isinstance(n, int) and n != 1]
        for d, (size, mine) in enumerate(zip(whole, part, strict=False)):
            if size != mine and len(whole) == len(part) and all(size % n for _, n in axes):
                shown = [f"{a}={n}" for a, n in axes]
                none = (
                    f"{shown[0]} does not divide"
                    if len(axes) == 1
                    else (f"none of {', '.join(shown)} divides")
                )
                return f"{none} its dim {d} of {size}"
        return ""

    def _misfit(self, name: str, source: str, what: str, cut: str = "") -> InputError:
        whole = self.sequential.parameters[source].shape
        return InputError(
            f"the parameter {name!r} is {what}, the sequential {source!r} is {list(whole)}"
            + (f": {cut}" if cut else ""),
            where="parameters='auto'",
            expected="the same shape, or dims divided by mesh axes",
            next_step="choose extents of the mesh that divide the sizes that are cut"
            if cut
            else f'say what it is: parameters={{"{name}": seq("{source}")...}}',
        )


def _shown(rule: Any, mesh: Mesh) -> str:
    """A rule as it is written in a Spec; on a mesh of one axis that of the axis will do."""
    if isinstance(rule, Mapping):
        return repr(next(iter(rule.values())) if len(mesh.axes) == 1 else dict(rule))
    return repr(rule)


def _pattern(name: str) -> str:
    """The pattern of a parameter in every layer."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def _plans(
    cut: list[int], axes: list[tuple[str, int]], whole: tuple[int, ...], part: tuple[int, ...]
) -> list[list[tuple[str, int]]]:
    """All ways to divide the dims ``cut`` by one axis each, or one dim by several axes."""
    if not cut:
        return [[]]
    d = cut[0]
    out = []
    for size in range(1, len(axes) + 1):
        for chosen in _subsets(axes, size):
            total = 1
            for _, n in chosen:
                total *= n
            if whole[d] == part[d] * total:
                rest = [a for a in axes if a not in chosen]
                out += [
                    [(a, d) for a, _ in chosen] + more
                    for more in _plans(cut[1:], rest, whole, part)
                ]
    return out


def _subsets(axes: list[tuple[str, int]], size: int) -> list[list[tuple[str, int]]]:
    if size == 0:
        return [[]]
    return [[a, *rest] for k, a in enumerate(axes) for rest in _subsets(axes[k + 1 :], size - 1)]


def _fused_parts(name: str) -> int:
    low = name.lower()
    return next((n for word, n in _FUSED.items() if word in low), 0)


def _by_rank(found: list[dict[str, Expr]], name: str) -> Callable[[int], Expr]:
    return lambda rank: found[rank][name]


def _source(rule: Any) -> str | None:
    """The only sequential tensor that an expression is about."""
    found: set[str] = set()
    if callable(rule) and not isinstance(rule, Expr):
        with suppress(Exception):  # said with its place when the rule is used
            rule = rule(0)
    _collect(rule, found)
    return found.pop() if len(found) == 1 else None


def _collect(rule: Any, found: set[str]) -> None:
    if isinstance(rule, Source):
        found.add(rule.name)
    elif isinstance(rule, Joined):
        for part in rule.parts:
            _collect(part, found)
    elif isinstance(rule, Indexed | Placed | Permuted | Reshaped):
        _collect(rule.base, found)


def rebased(rule: Any, name: str) -> Any:
    """The same rule about the sequential tensor ``name``."""
    if isinstance(rule, Source):
        return Source(name)
    if isinstance(rule, Indexed):
        return Indexed(rebased(rule.base, name), rule.bounds)
    if isinstance(rule, Placed):
        return Placed(rebased(rule.base, name), rule.placement)
    if isinstance(rule, Permuted):
        return Permuted(rebased(rule.base, name), rule.perm)
    if isinstance(rule, Reshaped):
        return Reshaped(rebased(rule.base, name), rule.shape)
    if isinstance(rule, Joined):
        return Joined(tuple(rebased(p, name) for p in rule.parts), rule.dim)
    if callable(rule) and not isinstance(rule, Expr):
        inner: Callable[..., Any] = rule
        return lambda rank: rebased(inner(rank), name)
    return rule
