"""Runs an ATen operator, or a traced function, both in PyTorch and through the importer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from shardproof.frontends.import_fx import ImportResult, import_fx
from shardproof.ir.check import check_graph
from shardproof.ir.graph import Graph, Value
from shardproof.ops.base import Array, infer_types, lookup

torch = pytest.importorskip("torch")


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[Value, Array]:
    """All values of a graph, by the reference evaluation of its operators."""
    env: dict[Value, Array] = {v: np.asarray(inputs[v.name]) for v in graph.inputs}
    for node in graph.nodes:
        rule = lookup(node.op).evaluate
        assert rule is not None, f"{node.op} cannot be evaluated"
        outs = rule(tuple(env[v] for v in node.inputs), node.attrs)
        env.update(zip(node.outputs, outs, strict=True))
    return env


def operator(target: str) -> Any:
    """``torch.ops.<target>``."""
    found = torch.ops
    for part in target.split("."):
        found = getattr(found, part)
    return found


def print_call(target: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> str:
    """A printed FX graph of one call; tensors in ``args`` become inputs."""
    graph = torch.fx.Graph()

    def place(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            node = graph.placeholder(f"arg{len(graph.nodes)}_1")
            node.meta["val"] = x
            return node
        if isinstance(x, list | tuple):
            return [place(y) for y in x]
        return x

    placed = [place(a) for a in args]
    named = {k: place(v) for k, v in kwargs.items()}
    call = graph.call_function(operator(target), tuple(placed), named)
    if isinstance(result, torch.Tensor):
        call.meta["val"] = result
        graph.output(call)
    else:
        items = []
        for k, r in enumerate(result):
            if not isinstance(r, torch.Tensor):
                continue
            item = graph.call_function(__import__("operator").getitem, (call, k))
            item.meta["val"] = r
            items.append(item)
        graph.output(tuple(items))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    return str(module.print_readable(print_output=False, include_stride=True, include_device=True))


def tensors(x: Any) -> list[Any]:
    """All tensors in nested arguments."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, Mapping):
        x = list(x.values())
    if isinstance(x, list | tuple):
        return [t for y in x for t in tensors(y)]
    return []


def array(x: Any) -> Array:
    """A tensor as the array that stands for it in evaluation."""
    x = x.detach().resolve_conj().resolve_neg()
    out: Array = (torch.view_as_real(x) if x.is_complex() else x).numpy()
    if out.dtype.kind == "f":
        return out.astype(np.float64)
    return out.astype(np.int64) if out.dtype.kind in "iu" else out


def run_imported(result: ImportResult, given: Sequence[Any], **extra: Array) -> list[Any]:
    """Outputs of an imported graph for tensors given in the order of its inputs."""
    assert check_graph(result.graph, infer_types) == []
    names = [v.name for v in result.graph.inputs if v.name not in extra]
    arrays = [array(t) for t in given]
    env = evaluate(result.graph, {**dict(zip(names, arrays, strict=True)), **extra})
    return [None if v is None else env[v] for v in result.graph.outputs]


def same(actual: Array, expected: Any, label: str, tolerance: float = 1e-9) -> None:
    """Compare an evaluated output with PyTorch's."""
    want = array(expected)
    assert actual.shape == want.shape, label
    np.testing.assert_allclose(
        actual.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance,
        err_msg=label,
    )  # fmt: skip


def check_call(
    target: str, args: Sequence[Any], kwargs: Mapping[str, Any], tolerance: float = 1e-9
) -> None:
    """One operator: what it lowers to computes what PyTorch computes."""
    result = operator(target)(*args, **kwargs)
    if isinstance(result, tuple):
        # An output that is masked out is an undefined tensor.
        result = list(result)
    text = print_call(target, args, kwargs, result)
    imported = import_fx(text)
    assert imported.unknown == {}, imported.reasons
    outputs = run_imported(imported, tensors([list(args), dict(kwargs)]))
    wanted = [r for r in (result if isinstance(result, list) else [result])
              if isinstance(r, torch.Tensor)]  # fmt: skip
    assert len(outputs) == len(wanted)
    for k, (out, want) in enumerate(zip(outputs, wanted, strict=True)):
        same(out, want, f"{target} output {k}", tolerance)


def check_function(
    fn: Callable[..., Any], *given: Any, text: str = "", tolerance: float = 1e-9, **facts: Any
) -> ImportResult:
    """A traced function: the imported graph computes what the function computes."""
    from torch.fx.experimental.proxy_tensor import make_fx

    wanted = tensors(fn(*given))
    text = text or make_fx(fn)(*given).print_readable(print_output=False)
    imported = import_fx(text, **facts)
    assert imported.unknown == {}, imported.reasons
    outputs = [o for o in run_imported(imported, given) if o is not None]
    for k, (out, want) in enumerate(zip(outputs, wanted, strict=True)):
        same(out, want, f"output {k}", tolerance)
    return imported
