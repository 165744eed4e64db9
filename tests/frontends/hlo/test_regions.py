"""Modules that are not partitioned yet: whole tensors outside, parts inside a region."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.support import imported, outputs

from shardproof.frontends.hlo.topology import tiles

BODY = """HloModule m{header}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

body {{
  x = f32[2,2] parameter(0)
  w = f32[2,6] parameter(1)
  d = f32[2,6] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT s = f32[2,6] all-reduce(d), channel_id=1, replica_groups={{{{0,1,2,3}},{{4,5,6,7}}}}, \
use_global_device_ids=true, to_apply=add
}}

ENTRY main {{
  x.1 = f32[4,8] parameter(0)
  w.1 = f32[8,6] parameter(1)
{lines}
}}
"""
OLDER = """
  a = f32[4,8] custom-call(x.1), custom_call_target="Sharding", sharding={X}
  b = f32[2,2] custom-call(a), custom_call_target="SPMDFullToShardShape", sharding={manual}
  c = f32[8,6] custom-call(w.1), custom_call_target="Sharding", sharding={W}
  d = f32[2,6] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={manual}
  e = f32[2,6] call(b, d), to_apply=body
  f = f32[2,6] custom-call(e), custom_call_target="Sharding", sharding={manual}
  ROOT g = f32[4,6] custom-call(f), custom_call_target="SPMDShardToFullShape", sharding={Y}
"""
NEWER = """
  a = (f32[2,2], f32[2,6]) custom-call(x.1, w.1), custom_call_target="xla.sdy.GlobalToLocalShape", \
frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"dp\\"}, \
{\\"tp\\"}]>, <@mesh, [{\\"tp\\"}, {}]>]>"}
  b = f32[2,2] get-tuple-element(a), index=0
  c = f32[2,6] get-tuple-element(a), index=1
  d = f32[2,6] call(b, c), to_apply=body
  ROOT g = f32[4,6] custom-call(d), custom_call_target="xla.sdy.LocalToGlobalShape", \
frontend_attributes={xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"dp\\"}, {}]>]>"}
"""
MESH = ', frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["dp"=2, "tp"=4]>}}'
SHARDINGS = [
    ("devices=[2,4]<=[8]", "devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate",
     "devices=[2,1,4]<=[8] last_tile_dim_replicate"),
    ("devices=[2,4]0,1,2,3,4,5,6,7", "devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate",
     "devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate"),
]  # fmt: skip


def agrees(text: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 8)), rng.standard_normal((8, 6))
    results = imported(text, 8)
    assert not any(r.unknown for r in results), results[0].reasons
    for (found,) in outputs(results, [[x, w]] * 8):
        np.testing.assert_allclose(found, x @ w)


@pytest.mark.parametrize(("x", "w", "y"), SHARDINGS)
def test_the_older_form(x: str, w: str, y: str) -> None:
    lines = OLDER
    for name, sharding in (("X", x), ("W", w), ("Y", y)):
        lines = lines.replace(f"{{{name}}}", f"{{{sharding}}}")
    agrees(BODY.format(header="", lines=lines))


def test_the_newer_form() -> None:
    agrees(BODY.format(header=MESH, lines=NEWER))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{replicated}", [[[0, 1, 2, 3]]]),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", [[[0, 1]], [[2, 3]]]),
        ("{devices=[2,2]<=[2,2]T(1,0)}", [[[0], [2]], [[1], [3]]]),
    ],
)
def test_tiles(text: str, want: Any) -> None:
    assert tiles(text, 2, 4).tolist() == want


@pytest.mark.parametrize(
    "text", ["{manual}", "{maximal device=0}", "{devices=[4]<=[4]}", "{devices=[2,3]<=[4]}", ""]
)
def test_other_shardings_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        tiles(text, 2, 4)


def test_a_sharding_of_another_form_is_opaque() -> None:
    lines = OLDER.replace("{X}", "{maximal device=0}").replace("{W}", "{replicated}")
    lines = lines.replace("{Y}", "{replicated}")
    text = BODY.format(header="", lines=lines)
    text = text.replace(
        "d = f32[2,6] custom-call(c)", "d = f32[2,6] slice(c), slice={[0:2], [0:6]}"
    )
    (result, *_) = imported(text.replace("f32[4,6] custom-call(f)", "f32[2,6] custom-call(f)"), 8)
    assert "SPMDFullToShardShape" in str(result.unknown) or "custom-call" in result.unknown
