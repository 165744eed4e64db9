"""One rank of a world that exists on paper only: the ``fake`` process group."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from shardproof.errors import InputError
from shardproof.frontends.torch_capture.patches import clear_dtensor_caches

ENVIRONMENT = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


@contextmanager
def rank_of_world(rank: int, axes: tuple[tuple[str, int], ...]) -> Iterator[DeviceMesh | None]:
    """Be rank ``rank`` of the mesh; gives torch's DeviceMesh (None without axes).

    Raises:
        InputError: the process is already part of a distributed job.
    """
    world = 1
    for _, n in axes:
        world *= n
    if dist.is_initialized():
        raise InputError(
            "torch.distributed is already initialised in this process",
            where="capture",
            expected="a process that is not a rank of a running job",
            next_step="call dist.destroy_process_group() first, or run the check on its own; "
            "model builders must not call init_process_group, the capture has done it",
        )
    hook, before = sys.excepthook, {name: os.environ.get(name) for name in ENVIRONMENT}
    if axes:
        os.environ.update(zip(ENVIRONMENT, map(str, (rank, rank, world)), strict=True))
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    sys.excepthook = hook
    clear_dtensor_caches()
    try:
        names = tuple(a for a, _ in axes)
        shape = tuple(n for _, n in axes)
        yield init_device_mesh("cpu", shape, mesh_dim_names=names) if axes else None
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class CollectiveCount(TorchDispatchMode):
    """Below the recorder: counts functional collectives on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        space = getattr(func, "namespace", "")
        if space.startswith("_c10d_functional") and func._opname not in (
            "wait_tensor", "_wrap_tensor_autograd",
        ):  # fmt: skip
            self.calls[func._opname] += 1
        return func(*args, **(kwargs or {}))
