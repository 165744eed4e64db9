"""Views, copies, matrix products and creation: one case a line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.frontends.aten_cases import DOUBLE, Case, bits, f, ints

torch = pytest.importorskip("torch")


def view_cases() -> Iterator[Case]:
    x = f(2, 3, 4)
    for name in "view _unsafe_view reshape view_copy _reshape_copy".split():
        yield Case(f"aten.{name}.default", (x, [6, 4]), {})
        yield Case(f"aten.{name}.default", (x, [2, -1]), {})
    yield Case("aten._reshape_alias.default", (x, [6, 4], [4, 1]), {})
    yield Case("prims.reshape.default", (x, [6, 4]), {})
    yield Case("aten.view_as.default", (x, f(6, 4)), {})
    yield Case("aten.reshape_as.default", (x, f(6, 4)), {})
    yield Case("aten.view.dtype", (x, DOUBLE), {})
    yield Case("aten.flatten.using_ints", (x, 1), {})
    yield Case("aten.unflatten.int", (x, 2, [2, 2]), {})
    for name in "unsqueeze unsqueeze_copy".split():
        yield Case(f"aten.{name}.default", (x, -1), {})
        yield Case(f"aten.{name}.default", (x, 1), {})
    y = f(1, 3, 1)
    yield Case("aten.squeeze.default", (y,), {})
    yield Case("aten.squeeze.dim", (y, 0), {})
    yield Case("aten.squeeze.dim", (y, 1), {})
    yield Case("aten.squeeze.dims", (y, [0, 2]), {})
    yield Case("aten.squeeze_copy.dim", (y, 0), {})
    yield Case("prims.squeeze.default", (y, [0, 2]), {})
    yield Case("prims.broadcast_in_dim.default", (f(3, 1), [2, 3, 4], [1, 2]), {})
    for name in "expand expand_copy".split():
        yield Case(f"aten.{name}.default", (f(3, 1), [2, -1, 4]), {})
    yield Case("aten.broadcast_to.default", (f(3, 1), [2, 3, 4]), {})
    yield Case("aten.expand_as.default", (f(3, 1), f(2, 3, 4)), {})


def slice_cases() -> Iterator[Case]:
    x = f(2, 3, 4)
    for name in "permute permute_copy".split():
        yield Case(f"aten.{name}.default", (x, [2, 0, -2]), {})
    yield Case("prims.transpose.default", (x, [2, 0, 1]), {})
    for name in "transpose transpose_copy".split():
        yield Case(f"aten.{name}.int", (x, 0, -1), {})
    yield Case("aten.swapaxes.default", (x, 0, 1), {})
    yield Case("aten.swapdims.default", (x, 0, 1), {})
    yield Case("aten.movedim.int", (x, 0, 2), {})
    yield Case("aten.moveaxis.int", (x, 2, 0), {})
    yield Case("aten.movedim.intlist", (x, [0, 1], [2, 0]), {})
    for name in "slice slice_copy".split():
        for bounds in ((0,), (1, 1, 3), (2, -2), (2, None, -1), (0, 1, 9), (1, 2, 1), (2, 0, 4, 2),
                       (2, 1, 9223372036854775807, 2)):  # fmt: skip
            yield Case(f"aten.{name}.Tensor", (x, *bounds), {})
    for name in "narrow narrow_copy".split():
        yield Case(f"aten.{name}.default", (x, 1, 1, 2), {})
        yield Case(f"aten.{name}.default", (x, 1, -2, 2), {})
    for name in "select select_copy".split():
        yield Case(f"aten.{name}.int", (x, 1, -1), {})


def joining_cases() -> Iterator[Case]:
    x = f(2, 3, 4)
    yield Case("aten.split_with_sizes.default", (x, [1, 3], -1), {})
    yield Case("aten.split_with_sizes_copy.default", (x, [1, 3], -1), {})
    yield Case("aten.split.sizes", (x, [1, 3], -1), {})
    for name in "split split_copy unsafe_split".split():
        yield Case(f"aten.{name}.Tensor", (x, 3, -1), {})
    yield Case("aten.chunk.default", (f(7), 3), {})
    yield Case("aten.unsafe_chunk.default", (f(7), 3), {})
    yield Case("aten.unsafe_split_with_sizes.default", (x, [1, 3], -1), {})
    for name in "unbind unbind_copy".split():
        yield Case(f"aten.{name}.int", (x, 1), {})
    for name in "cat concat concatenate".split():
        yield Case(f"aten.{name}.default", ([f(2, 3), f(1, 3)],), {})
    yield Case("aten.cat.default", ([f(0), f(1, 3), f(1, 2)], -1), {})
    yield Case("prims.cat.default", ([f(2, 3), f(1, 3)], 0), {})
    yield Case("aten.stack.default", ([f(2, 3), f(2, 3)], -1), {})
    for name in "repeat tile".split():
        yield Case(f"aten.{name}.default", (f(2, 3), [2, 1, 2]), {})
    yield Case("aten.tile.default", (f(2, 3), [2]), {})
    yield Case("aten.repeat_interleave.self_int", (f(2, 3), 2, 0), {})
    yield Case("aten.repeat_interleave.self_int", (f(2, 3), 2), {})
    yield Case("aten.roll.default", (x, [1, -1], [0, 2]), {})
    yield Case("aten.roll.default", (x, [5]), {})
    yield Case("aten.flip.default", (x, [1]), {})
    yield Case("prims.rev.default", (x, [1]), {})
    yield Case("aten.constant_pad_nd.default", (x, [1, 2, 0, 1], 1.5), {})
    yield Case("aten.constant_pad_nd.default", (x, [-1, 2]), {})
    yield Case("aten.pad.default", (x, [1, 2]), {"value": 3.0})
    for name in "tril triu".split():
        yield Case(f"aten.{name}.default", (f(2, 3, 4), 1), {})
        yield Case(f"aten.{name}.default", (bits(4, 4), -1), {})
    yield Case("aten.as_strided.default", (x, [6, 4], [4, 1]), {})


def copy_cases() -> Iterator[Case]:
    x = f(3, 4)
    yield Case("aten._to_copy.default", (x,), {"dtype": torch.float32}, 1e-6)
    yield Case("aten._to_copy.default", (x,), {"dtype": torch.int64})
    yield Case("aten._to_copy.default", (ints(3, 4),), {"dtype": torch.bool})
    yield Case("aten._to_copy.default", (bits(4),), {"dtype": DOUBLE})
    yield Case("aten.to.dtype", (x, torch.float32), {}, 1e-6)
    yield Case("prims.convert_element_type.default", (x, torch.float32), {}, 1e-6)
    yield Case("aten.type_as.default", (ints(3, 4), x), {})
    yield Case("aten.to.other", (ints(3, 4), x), {})
    yield Case("aten.copy.default", (x, f(4)), {})
    yield Case("prims.clone.default", (x,), {})
    yield Case("aten.slice_scatter.default", (x, f(3, 2), 1, 1, 3), {})
    yield Case("aten.slice_scatter.default", (x, f(3, 4)), {})
    yield Case("aten.select_scatter.default", (x, f(3), 1, -1), {})
    yield Case("aten.slice_backward.default", (f(3, 2), [3, 4], 1, 1, 3, 1), {})
    yield Case("aten.slice_backward.default", (f(3, 2), [3, 4], 1, 1, 4, 2), {})
    yield Case("aten.select_backward.default", (f(3), [3, 4], 1, 2), {})
    yield Case("aten.fill.Scalar", (x, 2.5), {})
    yield Case("aten.fill.Tensor", (x, f()), {})


def matmul_cases() -> Iterator[Case]:
    yield Case("aten.mm.default", (f(3, 4), f(4, 2)), {})
    yield Case("aten.bmm.default", (f(2, 3, 4), f(2, 4, 2)), {})
    yield Case("aten.mv.default", (f(3, 4), f(4)), {})
    yield Case("aten.dot.default", (f(4), f(4)), {})
    yield Case("aten.vdot.default", (f(4), f(4)), {})
    yield Case("aten.inner.default", (f(4), f(4)), {})
    yield Case("aten._int_mm.default", (ints(5, 24, 32).to(torch.int8),
                                        ints(5, 32, 24).to(torch.int8)), {})  # fmt: skip
    for a, b in (((3, 4), (4, 2)), ((4,), (4, 2)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2))):
        yield Case("aten.matmul.default", (f(*a), f(*b)), {})
    for scale in ({}, {"beta": 0.5, "alpha": 2}, {"beta": 0}):
        yield Case("aten.addmm.default", (f(2), f(3, 4), f(4, 2)), scale)
        yield Case("aten.baddbmm.default", (f(2, 3, 2), f(2, 3, 4), f(2, 4, 2)), scale)
        yield Case("aten.addmv.default", (f(3), f(3, 4), f(4)), scale)
        yield Case("aten.addbmm.default", (f(3, 2), f(2, 3, 4), f(2, 4, 2)), scale)
        yield Case("aten.addr.default", (f(3, 2), f(3), f(2)), scale)
    yield Case("aten._addmm_activation.default", (f(2), f(3, 4), f(4, 2)), {})
    yield Case("aten.outer.default", (f(3), f(2)), {})
    yield Case("aten.ger.default", (f(3), f(2)), {})
    yield Case("aten.linear.default", (f(2, 3, 4), f(5, 4), f(5)), {})
    yield Case("aten.linear.default", (f(4), f(5, 4)), {})
    for equation, shapes in {
        "bhtd,bhsd->bhts": [(2, 3, 4, 5), (2, 3, 6, 5)], "ij,kj->ki": [(2, 3), (4, 3)],
        "i,j->ij": [(2,), (3,)], "ij->ji": [(2, 3)], "ij->i": [(2, 3)],
        "ijk,jl": [(2, 3, 4), (3, 5)], "bi,bi->b": [(2, 3), (2, 3)],
    }.items():  # fmt: skip
        yield Case("aten.einsum.default", (equation, [f(*s) for s in shapes]), {})


def creation_cases() -> Iterator[Case]:
    x = f(3)
    d = {"dtype": DOUBLE}
    yield Case("aten.full.default", ([2, 3], 1.5), d)
    yield Case("aten.full.default", ([2, 3], 7), {})
    yield Case("prims.full.default", ([2], 1.5), {"dtype": DOUBLE, "device": torch.device("cpu"),
                                                  "requires_grad": False})  # fmt: skip
    yield Case("aten.full_like.default", (x, 2), {})
    yield Case("aten.new_full.default", (x, [2], 2), {})
    for name in "zeros ones".split():
        yield Case(f"aten.{name}.default", ([2, 3],), {})
        yield Case(f"aten.{name}_like.default", (x,), {"dtype": torch.int64})
        yield Case(f"aten.new_{name}.default", (x, [2]), {})
    yield Case("aten.scalar_tensor.default", (2.5,), d)
    yield Case("aten.arange.default", (5,), {})
    yield Case("aten.arange.start", (2, 7), {})
    yield Case("aten.arange.start_step", (1, 10, 3), {})
    yield Case("aten.arange.start_step", (10, 1, -3), {})
    yield Case("aten.arange.start_step", (0, 1, 0.3), d)
    yield Case("aten.arange.default", (5,), d)
    yield Case("prims.iota.default", (5,), {"start": 1, "step": 2, "dtype": torch.int64,
               "device": torch.device("cpu"), "requires_grad": False})  # fmt: skip
    yield Case("aten.linspace.default", (0, 1, 5), d)
    yield Case("aten.eye.default", (3,), d)
    yield Case("aten.eye.m", (3, 2), d)


FAMILIES = {
    "view": view_cases,
    "slice": slice_cases,
    "joining": joining_cases,
    "copy": copy_cases,
    "matmul": matmul_cases,
    "creation": creation_cases,
}
