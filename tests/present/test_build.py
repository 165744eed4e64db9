"""What is drawn is what the engine found: layouts, counterparts, pictures, costs, heat maps."""

from __future__ import annotations

import pytest
from tests.html import small
from tests.support.layers import pipeline

from shardproof import Mesh, Shard, Spec
from shardproof.diagnose.evidence import Evidence
from shardproof.examples.megatron_gpt import tp2_layers1, tp8_layers8
from shardproof.present.build import build
from shardproof.report.diagnostic import Verdict
from shardproof.report.html.picture import scene
from shardproof.report.view import BLAMED, NAMED, NONE, PARTIAL, Box, Picture, View
from shardproof.verify import verify

Checked = tuple[Verdict, View]


@pytest.fixture(scope="module")
def right() -> Checked:
    return small.checked(small.block())


@pytest.fixture(scope="module")
def wrong() -> Checked:
    return small.checked(small.block(total=False))


@pytest.fixture(scope="module")
def gpt() -> Checked:
    return small.checked(tp2_layers1())


def row(view: View, graph: int, name: str) -> int:
    return next(k for k, r in enumerate(view.graphs[graph].rows) if r.name == name)


def test_inputs_lie_on_the_ranks_as_declared(right: Checked) -> None:
    view = right[1]
    layouts = {r.name: view.layouts[r.layout] for r in view.inputs}
    assert layouts["x"].shape == [6, 8]
    assert [h.ranks for h in layouts["x"].holdings] == [[0, 1, 2, 3]]
    held = {h.ranks[0]: h.boxes for h in layouts["w1"].holdings}
    assert held == {k: [Box([0, 4 * k], [8, 4 * k + 4])] for k in range(4)}
    held = {h.ranks[0]: h.boxes for h in layouts["w2"].holdings}
    assert held == {k: [Box([4 * k, 0], [4 * k + 4, 8])] for k in range(4)}


def test_a_partial_sum_says_what_each_rank_sums(wrong: Checked) -> None:
    view = wrong[1]
    p = view.graphs[1].rows[row(view, 1, "p")]
    assert p.state == PARTIAL
    layout = view.layouts[p.layout]
    assert [(h.ranks, h.sums) for h in layout.holdings] == [
        ([k], f"{4 * k}:{4 * k + 4} of 16") for k in range(4)
    ]


def test_values_answer_to_the_sequential_ones(wrong: Checked) -> None:
    view = wrong[1]
    for name, twin in {"h": "h", "a": "a", "p": "o", "x": "x"}.items():
        found = view.graphs[1].rows[row(view, 1, name)].twin
        assert view.graphs[0].rows[found].name == twin
    assert view.graphs[1].rows[row(view, 1, "z")].twin == NONE


def lemmas(view: View, graph: int, name: str) -> str:
    return view.texts[view.graphs[graph].rows[row(view, graph, name)].lemmas]


def test_the_steps_of_a_derivation_name_their_lemmas(right: Checked) -> None:
    verdict, view = right
    assert lemmas(view, 1, "x") == ""
    assert lemmas(view, 1, "p") == "congruence"
    assert lemmas(view, 1, "o") == "rank-intervals-tile"
    named = {x for r in view.graphs[1].rows for x in view.texts[r.lemmas].split(", ") if x}
    assert named == set(verdict.lemmas)


def test_a_copied_layer_has_the_lemmas_of_the_one_it_is_copied_from() -> None:
    verdict, view = small.checked(tp8_layers8())
    said = [view.texts[r.lemmas] for r in view.graphs[1].rows]
    copies = [x.removesuffix(", repeated-layer") for x in said if x.endswith("repeated-layer")]
    assert len(copies) > len(said) / 2
    assert max(x.count("repeated-layer") for x in said) == 1
    assert {x for x in copies if x} < set(said)
    assert {x for text in said for x in text.split(", ") if x} <= set(verdict.lemmas)


def test_the_blamed_operator_is_marked_and_found(wrong: Checked) -> None:
    verdict, view = wrong
    (drawn,) = view.findings
    assert view.graphs[drawn.graph].rows[drawn.row].name == "y"
    assert view.graphs[drawn.graph].rows[drawn.row].state == BLAMED
    assert drawn.picture is not None
    blamed = [b for b in drawn.picture.boxes if b.state == BLAMED and b.column > 0]
    assert {b.column for b in blamed} == {1, 2, 3, 4}
    assert {b.name for b in blamed} == {"y"}
    assert verdict.findings[0].fix_verified


def test_the_change_is_a_diff_of_the_graph(wrong: Checked) -> None:
    diff = wrong[1].findings[0].diff
    added = [line for line in diff if line.startswith("+")]
    removed = [line for line in diff if line.startswith("-")]
    assert any("%p.fix: f32[6, 8] = all_reduce(%p)" in line for line in added)
    assert [line.replace("+", "-", 1).replace("%p.fix", "%p") for line in added[1:]] == removed


def test_heat_maps_hold_the_replayed_values(wrong: Checked) -> None:
    verdict, view = wrong
    found = verdict.findings[0].counterexample
    assert found is not None
    for heat in view.findings[0].heats:
        i, j = heat.worst
        gaps = [
            abs(a - b)
            for x, y in zip(heat.expected, heat.found, strict=True)
            for a, b in zip(x, y, strict=True)
            if a is not None and b is not None
        ]
        assert abs(heat.expected[i][j] - heat.found[i][j]) == max(gaps)  # type: ignore[operator]
    i, j = found.element
    assert view.findings[0].heats[0].expected[i][j] == found.sequential_value


def test_costs_are_those_of_the_sizes(right: Checked) -> None:
    view = right[1]
    whole, part = view.memory
    assert whole.inputs == 4 * (6 * 8 + 8 * 16 + 16 * 8)
    assert part.inputs == 4 * (6 * 8 + 8 * 4 + 4 * 8)
    assert whole.outputs == part.outputs == 4 * 6 * 8
    # The inputs, and both of h and gelu(h).
    assert whole.peak == whole.inputs + 4 * 2 * 6 * 16
    (t,) = view.traffic
    assert (t.kind, t.over, t.count) == ("all_reduce", "tp", 1)
    assert t.sent == 2 * 3 * (4 * 6 * 8) // 4


def test_a_program_for_every_number_of_ranks_is_drawn_at_a_sample() -> None:
    verdict, view = small.checked(small.symbolic())
    assert verdict.status == "refines"
    assert view.sample == "N = 4, f = 4"
    layouts = {r.name: view.layouts[r.layout] for r in view.inputs}
    assert [h.boxes[0] for h in layouts["w1"].holdings] == [
        Box([0, 4 * k], [8, 4 * k + 4]) for k in range(4)
    ]


def test_a_protocol_violation_shows_the_calls_side_by_side() -> None:
    verdict, view = small.checked(small.disordered())
    assert verdict.findings[0].code in ("SP100", "SP102")
    picture = view.findings[0].picture
    assert picture is not None
    assert picture.columns[1:] == ["rank 0", "rank 1"]
    blamed = [b for b in picture.boxes if b.state == BLAMED]
    assert len({b.row for b in blamed}) == 1
    assert {b.column for b in blamed} == {1, 2}


def test_a_message_is_a_bar_from_the_sender_to_the_receiver() -> None:
    seen: list[Evidence] = []
    verdict = verify(pipeline(2, 2, "sent too early"), observe=seen.append)
    assert verdict.status == "refuted"
    picture = build(verdict, seen[0]).findings[0].picture
    assert picture is not None
    assert picture.columns == ["sequential", "rank 0", "rank 1", "rank 2", "rank 3"]
    bars = [b for b in picture.boxes if b.span > 1]
    assert sorted(b.members for b in bars) == [[1, 3], [2, 4]]
    assert not boxes_overlap(picture)


def test_classes_of_ranks_are_drawn_as_the_ranks_they_are() -> None:
    seen: list[Evidence] = []
    verdict = verify(pipeline(2, 2), observe=seen.append)
    view = build(verdict, seen[0])
    assert [g.ranks for g in view.graphs] == [[], [0, 1], [2, 3]]
    assert verdict.status == "refines"


STAGE = """\
graph stage
rank {k}
mesh pp=2, tp=2
%x = input f32[2, 4]
%a = {op}
%y = all_reduce(%a) {{op="sum", group={group}}}
return %y
"""


def test_a_sum_over_classes_of_ranks_is_over_their_axis() -> None:
    """The stages differ, so that each is a class; what they add up is over pp, not over tp."""
    ops = ["scale(%x) {by=2/1}", "neg(%x)"]
    groups = ["(0, 2)", "(1, 3)"]
    ranks = [STAGE.format(k=k, op=ops[k // 2], group=groups[k % 2]) for k in range(4)]
    spec = Spec.from_graphs(
        sequential="graph s\n%x = input f32[4, 4]\n%y = scale(%x) {by=1/1}\nreturn %y\n",
        distributed=ranks,
        mesh=Mesh(pp=2, tp=2),
        inputs={"x": {"tp": Shard(0)}},
        outputs={"y": {"tp": Shard(0)}},
    )
    verdict, view = small.checked(spec)
    assert verdict.status == "refines"
    assert [g.ranks for g in view.graphs[1:]] == [[0, 1], [2, 3]]
    assert [(t.over, t.sent) for t in view.traffic] == [("pp", 2 * 4 * 4)]


def test_a_captured_program_is_drawn(gpt: Checked) -> None:
    verdict, view = gpt
    assert verdict.status == "refines"
    assert len(view.graphs[0].rows) > 90
    states = [r.state for r in view.graphs[1].rows]
    assert states.count(NAMED) > len(states) / 2
    assert {t.kind for t in view.traffic} == {"all_gather", "reduce_scatter", "all_reduce"}


def boxes_overlap(p: Picture) -> bool:
    shapes = scene(p).shapes
    for k, a in enumerate(shapes):
        for b in shapes[:k]:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x
            if not (apart or a.y + a.height <= b.y or b.y + b.height <= a.y):
                return True
    return False


@pytest.mark.parametrize("make", [lambda: small.block(total=False), small.disordered,
                                  small.unproved])  # fmt: skip
def test_pictures_are_small_and_nothing_overlaps(make: object) -> None:
    assert callable(make)
    _, view = small.checked(make())
    pictures = [f.picture for f in view.findings if f.picture is not None]
    assert pictures
    for p in pictures:
        assert 0 < len(p.boxes) <= 60
        assert not boxes_overlap(p)
        assert all(0 <= e.source < len(p.boxes) and 0 <= e.target < len(p.boxes) for e in p.edges)
