"""ATen operators on PyTorch's own sample inputs (OpInfo): what the importer makes of a call
computes what the call computes, whatever the shapes, element types, strides and arguments.

Every operator of PyTorch's list is run on some samples; the ATen calls that it makes are recorded
and checked one by one. A call may be refused, or be given no meaning, for a stated reason; it must
never be given a wrong one.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.frontends.support import check_call, operator, tensors
from tests.support.double import double_precision  # noqa: F401 - a fixture

from shardproof.errors import InputError
from shardproof.frontends.aten.registry import find

torch = pytest.importorskip("torch")

RANDOM = (
    "rand randn randint rand_like randn_like randint_like bernoulli multinomial native_dropout "
    "uniform normal exponential randperm"
).split()  # the value drawn is an input of the imported graph: tests/frontends/test_idioms.py
CONTENTS = "empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split()
SCALARS = ["_local_scalar_dense"]  # gives a number, no tensor
COMPLEX = ["complex"]  # complex numbers are pairs of reals: tests/frontends/test_end_to_end.py
# Of equal elements any may come first; infinite rows have no softmax over the reals.
TIES = "sort topk argsort kthvalue mode median max min".split()
INFINITE = ["_safe_softmax"]
LARGEST = 5000  # elements of all operands
MEANINGLESS = {
    "as_strided", "as_strided_copy", "bitwise_and.Tensor", "bitwise_or.Tensor",
    "bitwise_xor.Tensor", "constant_pad_nd", "flip", "index_copy", "index_put", "linspace",
    "masked_scatter", "scatter.src", "scatter_add", "slice_scatter", "std.correction",
    "std_mean.correction", "unfold", "var.correction", "var_mean.correction",
}  # fmt: skip
REFUSED = {
    # Indexing of a tensor without dims.
    "flip.default", "gather.default", "index_add.default", "index_copy.default",
    "index_select.default", "unfold.default",
    # A negative eps.
    "native_group_norm.default", "native_layer_norm.default",
}  # fmt: skip


def recorder() -> Any:
    """A dispatch mode that keeps the calls of operators that have a lowering."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if find(str(func)) is not None and not func._schema.is_mutable:
                self.calls.append((str(func), args, kwargs))
            return func(*args, **kwargs)

    return Recorder()


def noncontiguous(x: Any) -> Any:
    """The same values at other strides."""
    from torch.testing._internal.common_utils import noncontiguous_like

    if isinstance(x, torch.Tensor):
        plain = x.layout == torch.strided and not x.is_complex()
        return noncontiguous_like(x) if plain and x.numel() > 1 else x
    return type(x)(map(noncontiguous, x)) if type(x) in (list, tuple) else x


def recorded(dtype: Any, samples: int) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Calls that PyTorch's operators make on their first samples; every other one is strided."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = list(itertools.islice(op.sample_inputs("cpu", dtype), samples))
            except (RuntimeError, NotImplementedError):
                continue  # needs a library that is not there
            for k, s in enumerate(found):
                given = (s.input, *s.args)
                given = tuple(map(noncontiguous, given)) if k % 2 else given
                try:
                    with torch.no_grad(), recorder() as made:
                        op(*given, **s.kwargs)
                except (RuntimeError, TypeError, ValueError, AssertionError):
                    continue  # the operator itself refuses it
                yield from made.calls[:6]


def left_out(name: str, overload: str, dtype: Any) -> bool:
    drawn = name in RANDOM or name in CONTENTS or name in (*SCALARS, *COMPLEX, *INFINITE)
    return drawn or (name in TIES and not dtype.is_floating_point) or "generator" in overload


def exact(values: list[Any]) -> bool:
    """Whether all tensors are plain and none of them is rounded to fewer digits than doubles."""
    short = (torch.float32, torch.float16, torch.bfloat16)
    return all(t.layout == torch.strided and t.dtype not in short for t in values)


def run(dtype: Any, samples: int, each: int, *, listed: bool = False) -> Counter[str]:
    """Check up to ``each`` calls of every operator; how many there were. With ``listed``, no
    others may be refused or without a meaning than those that are listed above."""
    checked: Counter[str] = Counter()
    wrong: list[str] = []
    for target, args, kwargs in recorded(dtype, samples):
        name, _, overload = target.removeprefix("aten.").partition(".")
        if left_out(name, overload, dtype) or checked[target] == each:
            continue
        operands = tensors([list(args), kwargs])
        if not exact([*operands, *tensors(operator(target)(*args, **kwargs))]):
            continue
        if sum(t.numel() for t in operands) > LARGEST:
            continue
        try:
            check_call(target, args, kwargs)
            checked[target] += 1
        except InputError as e:
            if listed and f"{name}.{overload}" not in REFUSED:
                wrong.append(f"{target} is refused: {str(e).splitlines()[0]}")
        except ValueError as e:
            if "an integer to a negative power" not in str(e):
                raise
        except AssertionError as e:
            text = " ".join(str(e).split())
            plain = {name, f"{name}.{overload}"}
            known = plain & MEANINGLESS or not listed
            if not (text.startswith("{'aten.") and known):
                wrong.append(f"{target}: {text[:300]}")
    assert not wrong, wrong[:20]
    return checked


@pytest.mark.timeout(600)
def test_doubles() -> None:
    checked = run(torch.float64, 2, 4, listed=True)
    assert len(checked) > 150


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("dtype", "least"), [("float64", 220), ("int64", 100), ("bool", 40)])
def test_more_samples(dtype: str, least: int) -> None:
    checked = run(getattr(torch, dtype), 12 if dtype == "float64" else 5, 20)
    assert len(checked) > least
