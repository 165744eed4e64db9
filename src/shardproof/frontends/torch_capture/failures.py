"""What is said where a program cannot be run on its examples."""

from __future__ import annotations

import difflib
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from shardproof.errors import InputError, hole, shorten
from shardproof.frontends.torch_capture.provenance import last_users_line


@contextmanager
def users_errors(rank: int | None, parameters: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """What the program raises is said at the user's line, and once: torch logs it as well."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except InputError:
        raise
    except Exception as e:
        raise hole(e) or _failure(e, rank, parameters) from e
    finally:
        log.setLevel(before)


def _failure(e: Exception, rank: int | None, parameters: Mapping[str, torch.Tensor]) -> InputError:
    side = "sequential program" if rank is None else f"program of rank {rank}"
    uneven = next(_uneven(parameters), "")
    return InputError(
        f"the {side} failed: {type(e).__name__}: {shorten(str(e), 200)}"
        + (f"; {uneven}" if uneven else ""),
        where=last_users_line(e),
        expected="a program that runs on example inputs",
        next_step="choose extents of the mesh that divide the sizes that are cut"
        if uneven
        else "correct the program or the examples (inputs=...); --debug shows the traceback",
    )


def _uneven(parameters: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """The parameters that a mesh axis does not divide."""
    for name, p in parameters.items():
        if not isinstance(p, DTensor):
            continue
        for k, placement in enumerate(p.placements):
            dim, n = getattr(placement, "dim", None), p.device_mesh.size(k)
            if placement.is_shard() and dim is not None and p.shape[dim] % n:
                axis = (p.device_mesh.mesh_dim_names or {k: "the mesh"})[k]
                yield (
                    f"the parameter {name!r} is {list(p.shape)}, and {axis}={n} does not divide "
                    f"its dim {dim} of {p.shape[dim]}"
                )


def require_arguments(
    program: Callable[..., Any], first: tuple[Any, ...], examples: Iterable[str]
) -> None:
    """Refuse examples that are not the arguments of the program.

    Raises:
        InputError: one has no argument of its name, or an argument has none.
    """
    made = program.forward if isinstance(program, torch.nn.Module) else program
    given = list(examples)
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):
        return  # no signature is known; calling will tell
    try:
        signature.bind(*first, **dict.fromkeys(given))
    except TypeError:
        takes = list(signature.parameters)[len(first) :]
        raise _misfit(_called(program), takes, signature, given) from None


def _misfit(
    called: str, takes: list[str], signature: inspect.Signature, given: list[str]
) -> InputError:
    unknown = next((g for g in given if g not in takes), None)
    missing = [
        n
        for n in takes
        if n not in given and signature.parameters[n].default is inspect.Parameter.empty
    ]
    expected = f"the arguments of {called}: {shorten(', '.join(takes)) or 'none'}"
    if unknown is None:
        return InputError(
            f"inputs has no example for the argument {', '.join(missing)} of {called}",
            where="inputs",
            expected=expected,
            next_step=f'add inputs={{"{(missing or takes)[0]}": Input((4, 16))}}',
        )
    near = difflib.get_close_matches(unknown, takes, n=1) or missing[:1]
    return InputError(
        f"{called} has no argument {unknown!r}",
        where=f"inputs[{unknown!r}]",
        expected=expected,
        next_step=f"did you mean {near[0]!r}?" if near else "correct the name or remove the entry",
    )


def _called(program: Any) -> str:
    if isinstance(program, torch.nn.Module):
        return f"{type(program).__name__}.forward"
    return f"the function {getattr(program, '__name__', type(program).__name__)}"
