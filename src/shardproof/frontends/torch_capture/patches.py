"""All changes made to torch while a program is captured, in one place; each is undone at exit.

Capture runs on fake tensors and a process group that sends nothing. Torch code that would look
at data, run real kernels or cache fake objects is replaced as little as possible.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.device_mesh as device_mesh
import torch.distributed.distributed_c10d as c10d
import torch.nn.init as nn_init
import torch.nn.parallel.distributed as ddp
from torch._C._distributed_c10d import FakeWork, ProcessGroup
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from shardproof.errors import InputError
from shardproof.frontends.torch_capture.across import Across
from shardproof.frontends.torch_capture.groups import Groups

TESTED = "2.13"

_COUNTED = (
    "allreduce allreduce_coalesced broadcast reduce allgather _allgather_base "
    "allgather_into_tensor_coalesced reduce_scatter _reduce_scatter_base "
    "reduce_scatter_tensor_coalesced alltoall alltoall_base scatter gather send recv "
    "all_gather_single all_to_all_single reduce_scatter_single allgather_coalesced "
    "all_gather_single_coalesced reduce_scatter_single_coalesced"
).split()
_MESH_METHODS = (
    "__init__ _get_mesh_tensor_from_full_mesh _setup_world_group_and_device __getitem__ "
    "_create_sub_mesh _create_flatten_mesh _flatten _get_all_submeshes _create_unflatten_mesh "
    "_unflatten _get_slice_mesh_layout _compute_coordinates_from_mesh from_group _concatenate "
    "_init_one_process_group _init_process_groups"
).split()


@dataclass
class _Factor:
    """The factor of the last premultiplied sum: the dispatcher does not show it."""

    value: Any = None


REDUCE_FACTOR = _Factor()


@dataclass(eq=False)
class Watch:
    """What the patches observe: collectives by the method of the process group that Python code
    called, and the function to tell of a ``Work.wait()``; how often DDP made the ranks' copies of a
    buffer equal, by storage."""

    calls: Counter[str] = field(default_factory=Counter)
    waited: Callable[[int], None] = lambda seq: None
    across: Across = field(default_factory=Across)
    synchronised: Counter[int] = field(default_factory=Counter)


class _Patches:
    def __init__(self) -> None:
        self.saved: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        old = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        self.saved.append((owner, name, old))
        setattr(owner, name, value)

    def undo(self) -> None:
        for owner, name, value in reversed(self.saved):
            setattr(owner, name, value)


@contextmanager
def patched(across: Across) -> Iterator[Watch]:
    """Torch as capture needs it."""
    patches, watch = _Patches(), Watch(across=across)
    hook = sys.excepthook
    try:
        try:
            for install in (_communication, _meshes, _dtensor, _modules, _pipelines):
                install(patches, watch)
        except (AttributeError, KeyError) as e:
            raise InputError(
                f"PyTorch {torch.__version__} lacks what the capture changes: {e}",
                where="capture",
                expected=f"PyTorch {TESTED}, with which the capture is tested",
                next_step=f"install torch=={TESTED}.*, or check printed graphs",
            ) from e
        # Compiled regions would run real kernels on fake tensors.
        with torch.compiler.set_stance("force_eager"):
            yield watch
    finally:
        patches.undo()
        sys.excepthook = hook
        clear_dtensor_caches()


def _communication(patches: _Patches, watch: Watch) -> None:
    wait = FakeWork.wait

    def waiting(work: Any, *args: Any, **kwargs: Any) -> Any:
        watch.waited(work.seq_id)
        return wait(work, *args, **kwargs)

    patches.put(FakeWork, "wait", waiting)
    for name in _COUNTED:
        if name in ProcessGroup.__dict__:
            patches.put(ProcessGroup, name, _counting(ProcessGroup.__dict__[name], name, watch))
    for name in ("AllreduceOptions", "AllreduceCoalescedOptions", "ReduceOptions",
                 "ReduceScatterOptions"):  # fmt: skip
        patches.put(c10d, name, _telling(getattr(c10d, name)))
    patches.put(c10d, "_store_based_barrier", lambda *a, **k: None)
    patches.put(c10d, "_new_group_with_tag", _noting(c10d._new_group_with_tag, watch.across.groups))
    for owner in (dist, c10d):
        patches.put(owner, "all_gather_object", watch.across.objects.gather)
        patches.put(owner, "broadcast_object_list", watch.across.objects.broadcast)
    patches.put(ddp, "_verify_param_shape_across_processes", lambda *a, **k: True)
    broadcast = _broadcasting(watch)
    patches.put(dist, "_broadcast_coalesced", broadcast)
    patches.put(ddp, "_sync_module_states", _at_construction(broadcast))
    _data_parallel(patches)


def _noting(create: Any, groups: Groups) -> Any:
    bind = inspect.signature(create).bind

    @functools.wraps(create)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = bind(*args, **kwargs).arguments
        groups.created(given.get("ranks"), bool(given.get("use_local_synchronization")))
        return create(*args, **kwargs)

    return call


def _data_parallel(patches: _Patches) -> None:
    """DDP's C++ reducer reads a result that the fake group does not have, unless a hook gives it.
    The Python reducer calls functional collectives, which are recorded as they are."""
    wrapper: Any = ddp.DistributedDataParallel
    forward = wrapper.forward

    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._comm_hooks and not self._use_python_reducer:
            self.register_comm_hook(self.process_group, _mean_over_ranks)
        return forward(self, *args, **kwargs)

    patches.put(wrapper, "forward", hooked)


def _mean_over_ranks(group, bucket):  # type: ignore[no-untyped-def] # DDP reads annotations
    """What DDP does without a hook: the mean of the gradients over the group."""
    flat = bucket.buffer()
    flat.div_(group.size())
    dist.all_reduce(flat, group=group)
    done: Any = torch.futures.Future()
    done.set_result(flat)
    return done


def _broadcasting(watch: Watch) -> Any:
    """What DDP does with the buffers before each forward pass: rank ``src`` of the group gives the
    others its own. C++ code waits for what it sends, which the recorder would not see."""

    def broadcast(group: Any, tensors: Any, buffer_size: int, src: int = 0) -> None:
        for t in tensors:
            watch.synchronised[t.untyped_storage()._cdata] += 1
            dist.broadcast(t, group=group, group_src=src)

    return broadcast


def _at_construction(broadcast: Any) -> Any:
    """DDP makes parameters and buffers equal when it is built. Of parameters the relation says
    what each rank holds; buffers are constants, which may differ."""

    def synchronise(
        module: torch.nn.Module, process_group: Any, broadcast_bucket_size: int, src: int,
        params_and_buffers_to_ignore: Any, broadcast_buffers: bool = True,
    ) -> None:  # fmt: skip
        ignored = set(params_and_buffers_to_ignore)
        kept = [b.detach() for k, b in module.named_buffers() if k not in ignored]
        if broadcast_buffers:
            broadcast(process_group, kept, broadcast_bucket_size, src)

    return synchronise


def _counting(method: Any, name: str, watch: Watch) -> Any:
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        watch.calls[name] += 1
        return method(group, *args, **kwargs)

    return call


def _telling(options: Any) -> Any:
    class Options(options):  # type: ignore[misc]
        def __setattr__(self, key: str, value: Any) -> None:
            if key == "reduceOp":
                REDUCE_FACTOR.value = getattr(value, "factor", None)
            super().__setattr__(key, value)

    return Options


def _outside(function: Any) -> Any:
    """``function`` run without any dispatch mode: it computes with real tensors."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return call


def _meshes(patches: _Patches, watch: Watch) -> None:
    """A DeviceMesh does real tensor arithmetic on rank numbers."""
    mesh = device_mesh.DeviceMesh
    for name in _MESH_METHODS:
        found = mesh.__dict__.get(name)
        if isinstance(found, staticmethod):
            patches.put(mesh, name, staticmethod(_outside(found.__func__)))
        elif found is not None and not isinstance(found, classmethod):
            patches.put(mesh, name, _outside(found))
    patches.put(mesh, "mesh", property(_outside(mesh.mesh.fget)))  # type: ignore[attr-defined]
    outside = _outside(device_mesh.init_device_mesh)
    for owner in (device_mesh, dist):
        patches.put(owner, "init_device_mesh", outside)


def _dtensor(patches: _Patches, watch: Watch) -> None:
    """Sharding propagation runs operators on shadow tensors, which are not the program's."""
    from torch.distributed.tensor import _decompositions, _sharding_prop

    propagator = _sharding_prop.ShardingPropagator
    name = "_propagate_tensor_meta_non_cached"
    patches.put(propagator, name, _outside(getattr(propagator, name)))
    strategy = _decompositions.DecompShardingStrategy
    for name, value in list(strategy.__dict__.items()):
        if callable(value) and name.startswith("propagate"):
            patches.put(strategy, name, _outside(value))
    clear_dtensor_caches()


def clear_dtensor_caches() -> None:
    """Forget sharding decisions: they name groups of a process group that is gone."""
    from torch.distributed.tensor import DTensor, _sharding_prop

    propagator = DTensor._op_dispatcher.sharding_propagator
    propagator.propagate_op_sharding.cache_clear()
    _sharding_prop.ShardingPropagator._propagate_tensor_meta_cached.cache_clear()
    torch._C._clear_DTensor_sharding_propagator_cache()


def _modules(patches: _Patches, watch: Watch) -> None:
    apply: Any = torch.nn.Module._apply

    def rebuilding(self: torch.nn.Module, fn: Any, recurse: bool = True) -> Any:
        held = (p if isinstance(p, FakeTensor) else p.data for p in self.parameters())
        if any(isinstance(p, FakeTensor) for p in held):
            _rebuild(self, fn, {})
            return self
        return apply(self, fn, recurse)

    patches.put(torch.nn.Module, "_apply", rebuilding)
    patches.put(nn_init, "_no_grad_trunc_normal_", _trunc_normal)


def _trunc_normal(
    t: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> torch.Tensor:
    """Of a parameter the initial value does not matter, as it becomes an input. Other tensors
    hold unknown numbers, which differ where the arguments do."""
    if isinstance(t, torch.nn.Parameter):
        return t
    with torch.no_grad():
        return t.normal_().mul_(std).add_(mean).clamp_(a, b)


def _pipelines(patches: _Patches, watch: Watch) -> None:
    """Stages vote, by messages whose values Python reads, on whether all know their shapes. Every
    rank is captured, and each that does not is refused here: so all votes are yes."""
    from torch.distributed.pipelining import PipelineStage, schedules
    from torch.distributed.pipelining._utils import InferenceMode

    owner = schedules._PipelineSchedule
    vote = owner._warmup_p2p

    def warm_up(self: Any, stages: list[Any], has_backward: bool, p2p_done: bool) -> None:
        if not all(isinstance(stage, PipelineStage) for stage in stages):
            return vote(self, stages, has_backward, p2p_done)
        static, dynamic = InferenceMode.STATIC, InferenceMode.needs_dynamic
        for stage in stages:
            if dynamic(stage._user_meta, has_backward):
                raise InputError(
                    f"stage {stage.stage_index} of the pipeline learns its shapes from messages",
                    where="capture",
                    expected="a PipelineStage that is built with input_args and output_args",
                    next_step="give it tensors of the shapes of one micro-batch (also input_grads "
                    "and output_grads, where they are DTensors)",
                )
            stage._inference_mode = static
        return None

    patches.put(owner, "_warmup_p2p", warm_up)


def _rebuild(module: torch.nn.Module, fn: Any, done: dict[int, Any]) -> None:
    """``module.to(...)`` for fake parameters: new parameters, ties kept."""
    for child in module.children():
        _rebuild(child, fn, done)
    for name, p in list(module._parameters.items()):
        if p is None:
            continue
        if id(p) not in done:
            with torch.no_grad():
                q = fn(p)
            same = (q.dtype, q.device, q.shape) == (p.dtype, p.device, p.shape)
            new = p if same else torch.nn.Parameter(q, p.requires_grad)
            new.__dict__.update(p.__dict__)
            done[id(p)] = new
        module._parameters[name] = done[id(p)]
    for name, b in list(module._buffers.items()):
        if b is not None:
            module._buffers[name] = fn(b)
