"""The explanations of surviving mutants are about mutants that there are."""

from __future__ import annotations

from benchmarks.checker_mutants import mutants
from benchmarks.checker_survivors import CLASSES, Why, entries, explained, without_mutant


def test_every_entry_is_about_a_mutant() -> None:
    whys = entries()
    every = list(mutants())
    assert without_mutant(every, whys) == []
    assert all(w.group in CLASSES and w.reason and "\n" not in w.reason for w in whys)
    names = [w.name for w in whys if w.name]
    assert len(set(names)) == len(names), "a mutant is explained twice"


def test_an_entry_about_no_mutant_is_found() -> None:
    every = list(mutants(["exact"]))
    there, gone = (Why("work", "a reason", name) for name in (every[0].name, "exact.py f: 1 -> 2"))
    assert without_mutant(every, [there, gone]) == [gone.name]
    assert explained(every, [there, gone]) == {there.name: there}


def test_mutants_have_names_of_their_own() -> None:
    every = list(mutants())
    assert len({m.name for m in every}) == len(every)
