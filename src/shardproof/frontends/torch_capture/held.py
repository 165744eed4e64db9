"""What a program holds beside parameters and optimizer state: buffers, and tensors in attributes.

What a step writes is state: its value before the step is whatever earlier steps left, so it is an
input, and what the step leaves is an output. A program is first captured to see what it writes and
then again with that carried from step to step. What it only reads stays what its initialisation
gives, and is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor

from shardproof.frontends.paths import may_mean
from shardproof.frontends.torch_capture.constants import real_value
from shardproof.frontends.torch_capture.memory import Memory

WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True, slots=True)
class Held:
    """``carried`` buffers are inputs of the graph; ``written`` are those that the step writes,
    ``constant`` those that it reads at their initial value; ``loose`` are tensors in attributes
    that it writes. ``counters`` are numbers of the optimizer's state after the step, None where
    the value is not known."""

    carried: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    counters: Mapping[str, float | None] = field(default_factory=dict)


def plain_name(name: str) -> str:
    """A parameter's name without what wrappers add."""
    name = name.removeprefix("module.")
    for part in WRAPPERS:
        name = name.replace(part, "")
    return name


def chosen(names: Iterable[str], carried: Iterable[str]) -> list[str]:
    """Those of ``names`` that ``carried`` names, or means within a larger or a smaller module."""
    known = dict.fromkeys(names)
    found: set[str] = set()
    for c in carried:
        found.update([c] if c in known else [n for n in known if may_mean(n, c)])
    return [n for n in known if n in found]


class Buffers:
    """The buffers and attribute tensors of a program, from before the step on."""

    def __init__(self, program: Any, memory: Memory, synchronised: Counter[int]) -> None:
        self.program = program
        self.memory = memory
        self.synchronised = synchronised
        self._buffers = _buffers(program)
        self._loose = _attributes(program)
        self.carried: list[str] = []

    def carry(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """The buffers that are inputs, which from here on have no known value."""
        self.carried = chosen(self._buffers, names)
        for name in self.carried:
            _forget(_local(self._buffers[name]))
        return {name: self._buffers[name] for name in self.carried}

    def start(self) -> None:
        """The step begins."""
        self.memory.watch()
        self.synchronised.clear()

    def wrote(self, t: torch.Tensor) -> bool:
        """Whether the step wrote the tensor's memory."""
        return self.memory.writes[_storage(t)] > 0

    def after(self) -> dict[str, torch.Tensor]:
        """The carried buffers after the step; one that was taken away keeps its old tensor."""
        now = _buffers(self.program)
        return {name: now.get(name, self._buffers[name]) for name in self.carried}

    def held(self, counters: Mapping[str, float | None]) -> Held:
        """What the step did with them."""
        written = self._changed(self._buffers, _buffers(self.program))
        loose = self._changed(self._loose, _attributes(self.program))
        read = [
            name
            for name, t in {**self._buffers, **self._loose}.items()
            if _storage(t) in self.memory.reads
        ]
        state = {*written, *loose, *self.carried}
        constant = [name for name in read if name not in state]
        return Held(
            tuple(self.carried), tuple(written), tuple(constant), tuple(loose), counters
        )  # fmt: skip

    def _changed(
        self, before: Mapping[str, torch.Tensor], now: Mapping[str, torch.Tensor]
    ) -> list[str]:
        """Written in place, by the storage and so also through views, or replaced. DDP makes the
        copies equal once more, as it did when it was built: that alone changes nothing."""
        return [
            name
            for name, t in before.items()
            if self.memory.writes[_storage(t)] > self.synchronised[_storage(t)]
            or now.get(name) is not t
        ]


def number(value: Any) -> float | None:
    """The value of a counter, if it is known."""
    if isinstance(value, int | float):
        return float(value)
    values = real_value(_local(value)) if value.numel() == 1 else None
    return float(values[0]) if values else None


def _buffers(program: Any) -> dict[str, torch.Tensor]:
    if not isinstance(program, torch.nn.Module):
        return {}
    return {plain_name(k): b for k, b in program.named_buffers()}


def _attributes(program: Any) -> dict[str, torch.Tensor]:
    """Tensors that modules hold as plain attributes, and that are no parameter's memory."""
    if not isinstance(program, torch.nn.Module):
        return {}
    known = {_storage(t) for t in (*program.parameters(), *program.buffers())}
    return {
        plain_name(f"{path}.{key}" if path else key): t
        for path, module in program.named_modules()
        for key, t in vars(module).items()
        if isinstance(t, torch.Tensor) and _storage(t) not in known
    }


def _local(t: torch.Tensor) -> torch.Tensor:
    return t._local_tensor if isinstance(t, DTensor) else t


def _storage(t: torch.Tensor) -> int:
    return int(_local(t).untyped_storage()._cdata)


def _forget(t: torch.Tensor) -> None:
    """A fake tensor made of numbers remembers them, and would give them to ``.item()``."""
    if isinstance(t, FakeTensor) and t.constant is not None:
        t.fake_mode.fake_tensor_converter.invalidate_constant_aliases(t.constant)
        t.constant = None
