"""The cache of verdicts: the key covers all that a verdict depends on, and entries are checked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.report import verdicts
from tests.spec import programs

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.cache import store
from shardproof.cache.store import Cache, key_of
from shardproof.ir.content import NoContent, digest
from shardproof.ir.graph import Graph
from shardproof.ops import base
from shardproof.report.diagnostic import Finding, Verdict
from shardproof.spec.problem import Problem


def problem(**more: Any) -> Problem:
    arguments: dict[str, Any] = {
        "sequential": programs.SEQUENTIAL,
        "distributed": programs.RANKS,
        "mesh": Mesh(tp=2),
        "inputs": {"x": Shard(0), "w": Replicate()},
    }
    return Spec.from_graphs(**(arguments | more)).resolve()


def spmd() -> Problem:
    return problem(
        sequential=programs.SYMBOLIC_SEQUENTIAL,
        distributed=programs.SPMD,
        mesh=None,
        inputs={"x": Replicate(), "w1": Shard(1), "w2": Shard(0)},
    )


def key(p: Problem, fixed: dict[str, float] | None = None, options: Any = (True, None)) -> str:
    found = key_of(p, fixed or {}, options)
    assert found is not None
    return found


# ---------------------------------------------------------------- the key


def test_the_same_question_has_the_same_key() -> None:
    assert key(problem()) == key(problem())
    assert key(spmd()) == key(spmd())


def test_options_and_fixed_inputs_are_part_of_the_key() -> None:
    p = problem()
    keys = [
        key(p), key(p, {"x": 0.0}), key(p, {"x": 1.0}), key(p, {"w": 0.0}),
        key(p, options=(False, None)), key(p, options=(True, "tp")),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_a_placement_is_part_of_the_key() -> None:
    whole = programs.rank(0, rows=8), programs.rank(1, rows=8)
    keys = [
        key(problem()),
        key(problem(outputs={"h": Shard(0)})),
        key(problem(outputs={"s": Shard(0)})),
        key(problem(distributed=list(whole), inputs={"*": Replicate()})),
    ]
    assert len(set(keys)) == len(keys)


def test_the_sources_of_the_tool_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(problem())
    monkeypatch.setattr(store, "tool", lambda: "another")
    assert key(problem()) != before


def test_the_tool_is_digested_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for text in ("x = 1\n", "x = 1\n", "x = 2\n"):
        package = tmp_path / str(len(found)) / "shardproof"
        (package / "cache").mkdir(parents=True)
        (package / "engine.py").write_text(text)
        monkeypatch.setattr(store, "__file__", str(package / "cache" / "store.py"))
        store.tool.cache_clear()
        found.append(store.tool())
    store.tool.cache_clear()
    assert found[0] == found[1] != found[2]


Place = tuple[Callable[[Any], None], Any]


def leaves(thing: Any, seen: set[int], put: Callable[[Any], None]) -> Iterator[Place]:
    """Every plain value in ``thing``, with a function that puts another in its place."""
    if isinstance(thing, list):
        for k, x in enumerate(thing):
            yield from leaves(x, seen, lambda new, k=k: thing.__setitem__(k, new))
    elif isinstance(thing, tuple):
        for k, x in enumerate(thing):
            yield from leaves(x, seen, lambda new, k=k: put((*thing[:k], new, *thing[k + 1 :])))
    elif isinstance(thing, dict):
        for k, x in list(thing.items()):
            yield from leaves(x, seen, lambda new, k=k: thing.__setitem__(k, new))
    elif is_dataclass(thing) and not isinstance(thing, type):
        if id(thing) in seen:
            return
        seen.add(id(thing))
        frozen = type(thing).__dataclass_params__.frozen  # type: ignore[attr-defined]
        for f in fields(thing):
            change: Callable[[Any], None] = (
                (lambda new, f=f: put(replace(thing, **{f.name: new})))
                if frozen
                else (lambda new, f=f: setattr(thing, f.name, new))
            )
            yield from leaves(getattr(thing, f.name), seen, change)
    else:
        yield put, thing


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "'"
    if value is None:
        return 0
    return value + 1


@pytest.mark.parametrize("make", [problem, spmd])
def test_every_single_part_of_a_problem_is_part_of_the_key(make: Callable[[], Problem]) -> None:
    count = len(list(leaves(make(), set(), lambda _: None)))
    assert count > 100
    before = digest(make())
    for k in range(count):
        changed = copy.deepcopy(make())
        put, value = list(leaves(changed, set(), lambda _: None))[k]
        if type(value).__name__ == "Poly":
            continue
        put(other(value))
        assert digest(changed) != before, (k, value)


def test_a_symbolic_size_is_part_of_the_key() -> None:
    p = spmd()
    before = digest(p)
    value = p.sequential.inputs[0]
    value.type = replace(value.type, shape=tuple(n + n for n in value.type.shape))
    assert digest(p) != before


def test_what_is_not_known_has_no_content() -> None:
    class Odd:
        pass

    for thing in (lambda: 0, Odd(), {1: Odd()}, {Odd}, object(), 1j):
        with pytest.raises(NoContent):
            digest(thing)
    assert key_of(problem(), {}, Odd()) is None


def test_content_tells_kinds_and_borders_apart() -> None:
    things = [
        1, True, 1.0, "1", Fraction(1), None, (1,), [1], {1: 1}, frozenset([1]), ("a", "b"),
        ("ab",), ("a", ("b",)), (("a",), "b"), ("a;", "b"), ((), ()), ((),), -0.0, 0.0, 0, "",
    ]  # fmt: skip
    assert len({digest(x) for x in things}) == len(things)
    assert digest(1, 2) != digest((1, 2), ())
    nan = float("nan")
    assert digest(nan) == digest(nan)


def test_sharing_is_content() -> None:
    a, b = Graph("g"), Graph("g")
    assert digest([a, a]) != digest([a, b])
    assert digest([a, b]) == digest([b, a])


def test_users_operators_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = replace(base.lookup("add"), name="mine")
    monkeypatch.setitem(base._REGISTRY, "mine", mine)
    assert key_of(problem(), {}, ()) is None


# ---------------------------------------------------------------- entries


def decided(cache: Cache, verdict: Verdict, p: Problem | None = None) -> tuple[Verdict, int]:
    """The verdict that the cache gives, and how often it had to be decided."""
    calls = []

    def decide() -> Verdict:
        calls.append(1)
        return verdict

    return cache.verdict(p or problem(), {}, (), decide), len(calls)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


@pytest.mark.parametrize("make", [verdicts.refines, verdicts.refuted, verdicts.unproved])
def test_a_verdict_is_kept_and_says_so(tmp_path: Path, make: Callable[[], Verdict]) -> None:
    first, calls = decided(Cache(tmp_path), make())
    assert (first, calls) == (make(), 1)
    again, calls = decided(Cache(tmp_path), verdicts.refines())
    assert calls == 0
    assert again.cached
    assert replace(again, cached=False, seconds={}) == replace(make(), seconds={})
    assert len(files(tmp_path)) == 1


def test_without_a_folder_it_lasts_as_long_as_the_process() -> None:
    cache = Cache(None)
    decided(cache, verdicts.refuted())
    found, calls = decided(cache, verdicts.refines())
    assert (found.status, calls) == ("refuted", 0)
    found.findings.clear()
    assert decided(cache, verdicts.refines())[0].findings
    assert decided(Cache(None), verdicts.refines())[1] == 1


def test_failures_of_the_tool_are_not_kept(tmp_path: Path) -> None:
    failed = verdicts.unproved()
    failed.findings.append(Finding("SP900", "t", "m", False))
    stopped = verdicts.refuted()
    stopped.interrupted = "inference"
    for verdict in (failed, stopped):
        decided(Cache(tmp_path), verdict)
        assert files(tmp_path) == []
    with pytest.raises(ZeroDivisionError):
        Cache(tmp_path).verdict(problem(), {}, (), lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: text.replace("refuted", "refines"),
        lambda text: text.replace("shardproof-cache/1", "shardproof-cache/9"),
        lambda text: json.dumps(json.loads(text) | {"key": "0" * 64}),
        lambda text: "[]",
        lambda text: "\0" * 100,
    ],
)
def test_a_damaged_entry_is_ignored_with_a_note(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    decided(Cache(tmp_path), verdicts.refuted())
    (path,) = files(tmp_path)
    path.write_text(damage(path.read_text()))
    notes: list[str] = []
    found, calls = decided(Cache(tmp_path, notes.append), verdicts.unproved())
    assert (found.status, calls) == ("unproved", 1)
    assert len(notes) == 1
    assert notes[0].startswith(f"note: the cache entry {path} is ignored: ")
    assert decided(Cache(tmp_path, notes.append), verdicts.refines())[0].status == "unproved"


def test_an_entry_of_another_question_is_not_taken(tmp_path: Path) -> None:
    decided(Cache(tmp_path), verdicts.refines())
    (path,) = files(tmp_path)
    another = problem(outputs={"h": Shard(0)})
    wanted = tmp_path / key(another, options=())[:2] / f"{key(another, options=())}.json"
    wanted.parent.mkdir(exist_ok=True)
    path.rename(wanted)
    notes: list[str] = []
    assert decided(Cache(tmp_path, notes.append), verdicts.refuted(), another)[1] == 1
    assert notes


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    notes: list[str] = []
    cache = Cache(tmp_path / "file", notes.append)
    assert decided(cache, verdicts.refines())[0].status == "refines"
    assert len(notes) == 1
    assert "was not kept" in notes[0]


def test_a_new_folder_is_announced_once_and_ignored_by_git(tmp_path: Path) -> None:
    notes: list[str] = []
    folder = tmp_path / "kept"
    decided(Cache(folder, notes.append), verdicts.refines())
    assert notes == [
        f"note: verdicts are kept in {folder}, which git ignores; --no-cache keeps none"
    ]
    assert (folder / ".gitignore").read_text().splitlines()[-1] == "*"
    decided(Cache(folder, notes.append), verdicts.refines())
    for path in folder.glob("*/*.json"):
        path.unlink()
    decided(Cache(folder, notes.append), verdicts.refines())
    assert len(notes) == 1
