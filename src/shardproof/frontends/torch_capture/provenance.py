"""Where each recorded operator comes from: the user's line, the module, the phase.

An operator of the backward pass that no line of the user's calls is traced to the forward line
whose gradient it computes, by autograd's sequence number.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.nn.modules import module as nn_module
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from shardproof.ir.graph import NO_ORIGIN, UNREACHED, Origin

_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_SPEC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(_HERE))), "spec", "")
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_ENGINE = "_engine_run_backward"
_CAPTURE = "shardproof.frontends.torch_capture.capture"
MAX_CALLERS = 6


class Provenance:
    """Tells the origin of the operator that is being dispatched."""

    def __init__(self) -> None:
        self.phase = "init"
        # The user's line that ran autograd last; and whether it is the origin of what runs now.
        self._ran_backward = NO_ORIGIN
        self._unreached = False
        self.names: dict[int, str] = {}
        self._modules: list[str] = []
        self._outer: list[str] = []
        self._forward: dict[int, Origin] = {}
        self._hooks: list[Any] = []
        self._known: dict[str, bool] = {}
        self._paths: dict[str, str] = {}

    def __enter__(self) -> Provenance:
        self._hooks = [
            nn_module.register_module_forward_pre_hook(self._enter_module),
            nn_module.register_module_forward_hook(self._leave_module, always_call=True),
            register_optimizer_step_pre_hook(self._enter_optimizer),
            register_optimizer_step_post_hook(self._leave_optimizer),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for hook in self._hooks:
            hook.remove()
        self._modules.clear()
        self._outer.clear()

    def name_modules(self, root: torch.nn.Module) -> None:
        """Paths of modules, such as ``layers.0.mlp``."""
        self.names.update({id(m): n or type(m).__name__ for n, m in root.named_modules()})

    @contextmanager
    def unreached(self) -> Iterator[None]:
        """What runs inside stands for gradients that autograd did not make: it has the line that
        ran autograd last."""
        self._unreached = True
        try:
            yield
        finally:
            self._unreached = False

    def origin(self) -> Origin:
        """The origin of the operator being dispatched; remembered for its gradient."""
        if self._unreached:
            return replace(self._ran_backward, phase=UNREACHED)
        node = torch._C._current_autograd_node()
        frames, engine = self._user_frames()
        backward = engine is not None
        own = self._of_frames(frames)
        if node is None and not backward:
            # The autograd node of this operator, if it makes one, took the last number.
            seq = torch.autograd._get_sequence_nr() - 1
            self._forward.setdefault(seq, own)
            return own
        phase = "backward"
        outside = self._of_frames(self._outside(engine))
        if engine is not None:
            self._ran_backward = outside
        seq = node._sequence_nr() if node is not None else -1
        forward = self._forward.get(seq, NO_ORIGIN)
        if own is NO_ORIGIN and forward is NO_ORIGIN:
            # A gradient is added to those of earlier calls: the line is the one that calls.
            own = outside
        if own is NO_ORIGIN:
            return replace(forward, phase=phase)
        called = (*own.callers, *_as_callers(forward))[:MAX_CALLERS]
        return replace(own, module=forward.module, phase=phase, callers=called)

    # -- frames

    def _user_frames(self) -> tuple[list[FrameType], FrameType | None]:
        """The user's frames, innermost first, and that of the autograd engine if it runs. A frame
        outside the engine's call says nothing of what the engine runs, and one outside the capture
        (the command line, a test) is no part of the program."""
        frame: FrameType | None = sys._getframe(2)
        found: list[FrameType] = []
        while frame is not None:
            code = frame.f_code
            if code.co_name == _ENGINE and code.co_filename.startswith(_TORCH):
                return found, frame
            if _is_capture(frame):
                break
            if len(found) <= MAX_CALLERS and self._is_users(code.co_filename):
                found.append(frame)
            frame = frame.f_back
        return found, None

    def _outside(self, frame: FrameType | None) -> list[FrameType]:
        """The innermost frame of the user's outside ``frame``, inside the capture."""
        while frame is not None and not self._is_users(frame.f_code.co_filename):
            if _is_capture(frame):
                return []
            frame = frame.f_back
        return [] if frame is None else [frame]

    def _is_users(self, path: str) -> bool:
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = is_users(path)
        return known

    def _of_frames(self, frames: list[FrameType]) -> Origin:
        if not frames:
            return NO_ORIGIN
        path, line = frames[0].f_code.co_filename, frames[0].f_lineno
        return Origin(
            self._shown(path),
            line,
            frames[0].f_code.co_qualname,
            linecache.getline(path, line).strip(),
            self._modules[-1] if self._modules else "",
            self.phase,
            tuple(f"{self._shown(f.f_code.co_filename)}:{f.f_lineno}" for f in frames[1:]),
        )

    def _shown(self, path: str) -> str:
        known = self._paths.get(path)
        if known is None:
            known = self._paths[path] = shown_path(path)
        return known

    # -- modules

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        self._modules.append(self.names.get(id(module), type(module).__name__))

    def _leave_module(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._modules:
            self._modules.pop()

    # -- optimizers

    def _enter_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A step of the user's calls the optimizer itself; it may call another one."""
        self._outer.append(self.phase)
        self.phase = "optimizer"

    def _leave_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._outer:
            self.phase = self._outer.pop()


def _is_capture(frame: FrameType) -> bool:
    """Whether a frame is the one that runs the user's functions."""
    return frame.f_globals.get("__name__") == _CAPTURE


def _as_callers(origin: Origin) -> tuple[str, ...]:
    """The forward line as what called a backward function, and what called that."""
    return (f"{origin.file}:{origin.line}", *origin.callers) if origin.file else ()


def is_users(path: str) -> bool:
    """Whether a file is neither torch's, Python's nor the capture's own."""
    inside = os.path.abspath(path)
    ours = inside.startswith((_TORCH, _HERE, _SPEC))
    library = inside.startswith(_STDLIB) and "site-packages" not in inside
    wrapper = os.path.basename(path) == "typing_extensions.py"  # of deprecated functions
    return not (ours or library or wrapper or path.startswith("<frozen"))


def last_users_line(error: BaseException) -> str:
    """``file:line in function`` of the innermost user's frame of a traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    if not frames:
        return "capture"
    return f"{shown_path(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}"


def shown_path(path: str) -> str:
    """The path relative to the working directory if it lies below it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative
