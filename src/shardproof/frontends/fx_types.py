"""Annotations of printed FX graphs: ``f32[8, 16][16, 1]cpu``, ``Sym(s77)``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shardproof.frontends.fx_lexer import Arith, Call, Cursor, FxSyntaxError, Ref, tokenize
from shardproof.ir.graph import DTYPES
from shardproof.ir.sizes import Size, Undecided, div_mod, product, smax, smin, symbol

MAX_RANK = 32


class UnknownDtype(FxSyntaxError):
    """An element type that the verifier has no meaning for."""


@dataclass(frozen=True, slots=True)
class FxType:
    """What an annotation says: a tensor (``dtype``, ``shape`` and, where printed, ``stride``) or
    a scalar (``scalar``)."""

    dtype: str = ""
    shape: tuple[Size, ...] = ()
    stride: tuple[Size, ...] | None = None
    scalar: Size | float | bool | None = None

    @property
    def is_tensor(self) -> bool:
        return bool(self.dtype)

    def __str__(self) -> str:
        if not self.is_tensor:
            return f"Sym({self.scalar})"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


_SAME_AS = {
    "f8e4m3fn": "f8e4m3",
    "f8e4m3fnuz": "f8e4m3",
    "f8e5m2fnuz": "f8e5m2",
    "bool": "b8",
}
_TORCH_NAMES = {
    "float64": "f64",
    "double": "f64",
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e4m3fnuz": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2",
    "int64": "i64",
    "long": "i64",
    "int32": "i32",
    "int": "i32",
    "int16": "i16",
    "short": "i16",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "b8",
    "complex64": "c64",
    "complex128": "c128",
}
_CONCRETE = re.compile(r"(\w+)\[([\d, ]*)\](?:\[([\d, ]*)\]\S*)?\Z")


@lru_cache(maxsize=16384)
def parse_annotation(text: str) -> FxType:
    """Read one annotation.

    Raises:
        FxSyntaxError: the text is no annotation, or names an unknown element type.
    """
    m = _CONCRETE.match(text)
    if m is not None:
        return _checked(m[1], _integers(m[2]), None if m[3] is None else _integers(m[3]))
    cursor = Cursor(tokenize(text))
    if cursor.kind == "name" and cursor.text == "Sym":
        value = cursor.expression()
        if isinstance(value, Call) and len(value.args) == 1:
            return FxType(scalar=scalar(value.args[0]))
    elif cursor.kind == "name" and cursor.peek() == ("op", "["):
        dtype = cursor.next()[1]
        cursor.next()
        shape = tuple(size(d) for d in cursor.items("]"))
        stride = tuple(size(d) for d in cursor.items("]")) if cursor.accept("[") else None
        return _checked(dtype, shape, stride)
    raise FxSyntaxError(f'{text[:60]!r} is not an annotation such as "f32[8, 16]"')


def _integers(text: str) -> tuple[int, ...]:
    if len(text) > 1000:
        raise FxSyntaxError("a shape of more than 1000 characters")
    return tuple(int(d) for d in text.replace(",", " ").split())


def _checked(dtype: str, shape: tuple[Size, ...], stride: tuple[Size, ...] | None) -> FxType:
    dtype = _SAME_AS.get(dtype, dtype)
    if dtype not in DTYPES:
        raise UnknownDtype(f"unknown element type {dtype[:40]!r}")
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise FxSyntaxError("a shape with a negative size")
    if len(shape) > MAX_RANK:
        raise FxSyntaxError(f"a tensor of more than {MAX_RANK} dims")
    return FxType(dtype, shape, stride)


def dtype_of(path: str) -> str | None:
    """The IR's element type for ``torch.float16`` and the like."""
    return _TORCH_NAMES.get(path.removeprefix("torch."))


def scalar(expr: Any) -> Size | float | bool:
    """The value of a ``Sym(...)`` annotation; booleans and floats stay what they are."""
    return expr if isinstance(expr, bool | float) else size(expr)


def size(expr: Any) -> Size:
    """A size from its printed form, as a polynomial over symbols.

    Raises:
        FxSyntaxError: it is not a polynomial with integer coefficients.
    """
    if isinstance(expr, bool):
        raise FxSyntaxError("a truth value is not a size")
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Ref):
        return symbol(expr.name)
    if isinstance(expr, Arith):
        return arithmetic(expr.op, tuple(size(x) for x in expr.operands))
    if isinstance(expr, Call) and not expr.kwargs:
        return arithmetic(expr.func.rsplit(".", 1)[-1], tuple(size(x) for x in expr.args))
    raise FxSyntaxError("a size must be an integer or a polynomial over symbols")


def arithmetic(op: str, xs: tuple[Size, ...]) -> Size:
    """Apply one printed arithmetic operator to sizes."""
    try:
        return _arithmetic(op, xs)
    except ZeroDivisionError as e:
        raise FxSyntaxError(f"size arithmetic {op!r}: {e}") from e
    except Undecided:
        # No polynomial: an unknown of its own, the same one wherever the same text stands. What
        # is proved for all its values holds for the one that it has.
        return symbol(_name(f"_{_WORDS.get(op, op)}_".join(map(str, xs))))


def _name(text: str) -> str:
    """An identifier for an expression; the digest keeps ``a - 1`` and ``a + 1`` apart."""
    digest = hashlib.blake2s(text.encode(), digest_size=4).hexdigest()
    return "n_" + re.sub(r"\W+", "_", text)[:40] + "_" + digest


_Binary = Callable[[Size, Size], Size]
_BINARY: dict[str, _Binary] = {
    "+ add": lambda a, b: a + b,
    "- sub": lambda a, b: a - b,
    "* mul": lambda a, b: a * b,
    "// / FloorDiv floordiv CleanDiv": lambda a, b: div_mod(a, b)[0],
    "% Mod PythonMod mod": lambda a, b: div_mod(a, b)[1],
    "Max max": smax,
    "Min min": smin,
}
_WORDS = {"//": "div", "/": "div", "FloorDiv": "div", "CleanDiv": "div", "%": "mod",
          "Mod": "mod", "PythonMod": "mod"}  # fmt: skip
_BY_NAME = {name: fn for names, fn in _BINARY.items() for name in names.split()}


def _arithmetic(op: str, xs: tuple[Size, ...]) -> Size:
    match op, xs:
        case ("neg", (a,)):
            return -a
        case ("**" | "pow", (a, int(k))) if 0 <= k <= 8:
            return product([a] * k)
        case (_, (a, b)) if op in _BY_NAME:
            return _BY_NAME[op](a, b)
    raise FxSyntaxError(f"size arithmetic {op!r} is not supported")
