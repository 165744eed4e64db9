"""Which statement each tensor shows: SSA form by storage.

A tensor is looked up by its storage and its window on it, never by the identity of the Python
object, so that views, ``detach``, ``t.data = x`` and in-place operators need no special care. A
write makes a new value of the whole storage; windows that were not written are cut out of it
again when they are next read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_types import FxType
from shardproof.frontends.torch_capture.constants import emit_constant, real_value
from shardproof.frontends.torch_capture.statements import Statements
from shardproof.frontends.torch_capture.strided import Geometry, NoPlan, Plan, plan

_NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "b8", torch.complex64: "c64", torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2",
}  # fmt: skip


def dtype_name(dtype: torch.dtype) -> str:
    """The verifier's name of an element type."""
    if dtype not in _NAMES:
        raise InputError(
            f"the element type {dtype} has no meaning to the verifier",
            where="capture",
            expected="float, integer, bool or complex tensors",
            next_step="build the model with ordinary element types (not quantised ones)",
        )
    return _NAMES[dtype]


def geometry(t: torch.Tensor) -> Geometry:
    """The tensor's window on its storage."""
    shape = tuple(t.shape)
    if any(type(n) is not int for n in shape):
        raise InputError(
            f"a tensor has the shape {tuple(map(str, shape))}, which depends on data",
            where="capture",
            expected="shapes that the shapes of the inputs determine",
            next_step="avoid nonzero(), masked_select() and boolean indexing in the model",
        )
    if t.layout != torch.strided:
        raise InputError(
            f"a tensor has the layout {t.layout}",
            where="capture",
            expected="dense tensors",
            next_step="use dense tensors, for example nn.Embedding(sparse=False)",
        )
    return Geometry(dtype_name(t.dtype), shape, tuple(t.stride()), int(t.storage_offset()))


def fx_type(t: torch.Tensor) -> FxType:
    """The annotation that the FX frontend checks a result against."""
    g = geometry(t)
    return FxType(g.dtype, g.shape, g.stride)


@dataclass(eq=False, slots=True)
class _Storage:
    """``base`` shows all of the storage in the window ``window``, but for the writes that are
    ``pending``, oldest first; ``current`` maps windows to the statements that show them since
    the last write."""

    keep: Any
    window: Geometry
    base: Ref
    current: dict[Geometry, Ref] = field(default_factory=dict)
    pending: list[tuple[Geometry, Ref]] = field(default_factory=list)


class Memory:
    """All storages of one captured program."""

    def __init__(self, statements: Statements) -> None:
        self.st = statements
        self._storages: dict[int, _Storage] = {}
        self.reads: set[int] = set()
        self.writes: Counter[int] = Counter()
        """Storages that were read, and written how often, since :meth:`watch`; all of them are
        kept alive."""

    def watch(self) -> None:
        """Note reads and writes from here on."""
        self.reads, self.writes = set(), Counter()

    # -- look-up

    def knows(self, t: torch.Tensor) -> bool:
        """Whether something was recorded about the tensor's storage."""
        return t.untyped_storage()._cdata in self._storages

    def read(self, t: torch.Tensor) -> Ref:
        """The statement that shows what ``t`` holds now."""
        g = geometry(t)
        self.reads.add(t.untyped_storage()._cdata)
        s = self._storages.get(t.untyped_storage()._cdata)
        if s is None:
            return self._first_seen(t, g)
        found = s.current.get(g)
        if found is None:
            found = s.current[g] = self._cut(s, g, self._total(t))
        return found

    def settle(self, t: torch.Tensor, flying: Ref, done: Ref) -> None:
        """``done`` is ``flying`` after the wait; nothing else changes."""
        s = self._storages.get(t.untyped_storage()._cdata)
        if s is None:
            return
        s.base = done if s.base == flying else s.base
        s.pending = [(g, done if r == flying else r) for g, r in s.pending]
        s.current = {g: done if r == flying else r for g, r in s.current.items()}

    def _first_seen(self, t: torch.Tensor, g: Geometry) -> Ref:
        value = real_value(t)
        if value is None:
            raise InputError(
                f"a tensor of shape {list(g.shape)} was made before the capture began, so its "
                "values are not known",
                where=str(self.st.origin),
                expected="a program that makes all its tensors when it is built or run",
                next_step="build the model (and its buffers) inside the function given to Spec; "
                "pass data as inputs",
            )
        ref = emit_constant(self.st, value, g)
        self.bind(t, ref)
        return ref

    # -- changes

    def bind(self, t: torch.Tensor, ref: Ref) -> None:
        """``ref`` computed ``t``: a new storage, or one more window on a known one."""
        storage, g = t.untyped_storage(), geometry(t)
        s = self._storages.get(storage._cdata)
        if s is None:
            self._storages[storage._cdata] = _Storage(storage, g, ref, {g: ref})
        else:
            s.current[g] = ref

    def write(self, t: torch.Tensor, ref: Ref) -> None:
        """``t`` now holds what ``ref`` computed."""
        storage, g = t.untyped_storage(), geometry(t)
        self.writes[storage._cdata] += 1
        s = self._storages.get(storage._cdata)
        total = self._total(t)
        if s is None or g == s.window or g.covers(total):
            self._storages[storage._cdata] = _Storage(storage, g, ref, {g: ref})
            return
        s.pending = [(w, r) for w, r in s.pending if w != g] + [(g, ref)]
        s.current = {g: ref}

    def _flush(self, s: _Storage, total: int) -> None:
        """Put the pending writes into the base."""
        pending, s.pending = s.pending, []
        for g, ref in pending:
            s.base = self._put(s, g, ref, total)
            s.window = Geometry(g.dtype, (total,), (1,))

    def _total(self, t: torch.Tensor) -> int:
        return int(t.untyped_storage().nbytes()) // t.element_size()

    # -- windows

    def _flat(self, s: _Storage, g: Geometry, total: int) -> Ref:
        """The whole storage in one dim, in storage order."""
        window = s.window
        if window.dtype != g.dtype:
            raise self._refused(f"as {g.dtype} what was written as {window.dtype}")
        if not window.covers(total):
            raise self._refused("memory that no operator has written")
        ref = s.base
        if not window.contiguous:
            order = sorted(range(len(window.shape)), key=lambda k: -window.stride[k])
            ref = self._emit("aten.permute.default", (ref, tuple(order)), g.dtype,
                             tuple(window.shape[k] for k in order))  # fmt: skip
        return self._reshape(ref, None, (total,), g.dtype)

    def _cut(self, s: _Storage, g: Geometry, total: int) -> Ref:
        if g.numel == 0:
            return self._emit("aten.full.default", (g.shape, 0), g.dtype, g.shape)
        self._flush(s, total)
        if g == s.window:
            return s.base
        p = self._plan(g, total)
        x, shape = self._rows(self._flat(s, g, total), p, g.dtype, total)
        for d, (a, b) in enumerate(p.ranges):
            x, shape = self._slice(x, shape, d, a, b, g.dtype)
        x = self._reshape(x, shape, p.ordered, g.dtype)
        if p.perm != tuple(range(len(p.perm))):
            x = self._emit("aten.permute.default", (x, p.perm), g.dtype, p.kept)
        x = self._reshape(x, p.kept, p.single, g.dtype)
        if p.single != g.shape:
            x = self._emit("aten.expand.default", (x, g.shape), g.dtype, g.shape)
        return x

    def _put(self, s: _Storage, g: Geometry, new: Ref, total: int) -> Ref:
        """The flat storage after ``new`` was written to the window ``g``."""
        if g.numel == 0:
            return self._flat(s, g, total)
        p = self._plan(g, total)
        if p.single != g.shape:
            raise self._refused("through a window that repeats elements")
        flat = self._flat(s, g, total)
        x, shape = self._rows(flat, p, g.dtype, total)
        inverse = tuple(sorted(range(len(p.perm)), key=lambda k: p.perm[k]))
        v = self._reshape(new, g.shape, p.kept, g.dtype)
        if inverse != tuple(range(len(inverse))):
            v = self._emit("aten.permute.default", (v, inverse), g.dtype, p.ordered)
        cut = tuple(b - a for a, b in p.ranges)
        v = self._reshape(v, p.ordered, cut, g.dtype)
        x = self._scatter(x, shape, v, p.ranges, 0, g.dtype)
        x = self._reshape(x, shape, (p.stop - p.start,), g.dtype)
        if (p.start, p.stop) == (0, total):
            return x
        return self._scatter(flat, (total,), x, ((p.start, p.stop),), 0, g.dtype)

    def _scatter(
        self, x: Ref, shape: tuple[int, ...], v: Ref, ranges: tuple[tuple[int, int], ...],
        d: int, dtype: str,
    ) -> Ref:  # fmt: skip
        if d == len(ranges):
            return v
        (a, b) = ranges[d]
        inner, cut = self._slice(x, shape, d, a, b, dtype)
        v = self._scatter(inner, cut, v, ranges, d + 1, dtype)
        if (a, b) == (0, shape[d]):
            return v
        return self._emit("aten.slice_scatter.default", (x, v, d, a, b), dtype, shape)

    def _rows(self, flat: Ref, p: Plan, dtype: str, total: int) -> tuple[Ref, tuple[int, ...]]:
        x, shape = self._slice(flat, (total,), 0, p.start, p.stop, dtype)
        return self._reshape(x, shape, p.digits, dtype), p.digits

    def _slice(
        self, x: Ref, shape: tuple[int, ...], d: int, a: int, b: int, dtype: str
    ) -> tuple[Ref, tuple[int, ...]]:
        if (a, b) == (0, shape[d]):
            return x, shape
        cut = (*shape[:d], b - a, *shape[d + 1 :])
        return self._emit("aten.slice.Tensor", (x, d, a, b), dtype, cut), cut

    def _reshape(
        self, x: Ref, old: tuple[int, ...] | None, new: tuple[int, ...], dtype: str
    ) -> Ref:
        return x if old == new else self._emit("aten.view.default", (x, new), dtype, new)

    def _emit(self, target: str, args: tuple[Any, ...], dtype: str, shape: tuple[int, ...]) -> Ref:
        kwargs = {"dtype": dtype} if target == "aten.full.default" else {}
        return self.st.call(target, args, kwargs, FxType(dtype, shape))

    def _plan(self, g: Geometry, total: int) -> Plan:
        try:
            return plan(g, total)
        except NoPlan as e:
            raise self._refused(f"through a window of shape {list(g.shape)}: {e}") from e

    def _refused(self, how: str) -> InputError:
        return InputError(
            f"the program reads or writes {how}",
            where=str(self.st.origin),
            expected="views made by slicing, reshaping and permuting",
            next_step="copy the tensor (.clone() or .contiguous()) before this line",
        )
