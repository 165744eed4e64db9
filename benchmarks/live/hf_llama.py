"""Llama of the `transformers` library, with the tensor-parallel plan that it brings along.

The model is made without weights, and its own plan is applied to it as `from_pretrained` does. The
faults are the user's: a changed plan, a style or an attention of their own, the training step.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn
from torch.distributed.tensor import DTensor

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins

THERE = find_spec("transformers") is not None
if THERE:
    from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
    from transformers.distributed import DistributedConfig, tensor_parallel
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

LAYERS = "model.layers.*."


def model(heads: int, groups: int, attention: str = "sdpa") -> Any:
    """Two layers, with ``groups`` heads of keys and values."""
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=8 * heads,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            vocab_size=64,
            max_position_embeddings=64,
            use_cache=False,
            attn_implementation=attention,
        )
    )


def sharded(net: Any, mesh: Any, change: dict[str, str] | None = None) -> Any:
    """The model on its plan; ``change`` are other styles for some of its modules."""
    net.tp_plan = {**net.tp_plan, **(change or {})}
    plan, _, _ = net._resolve_parallel_plans(DistributedConfig(tp_size=mesh["tp"].size()))
    return tensor_parallel.apply_tensor_parallelism(net, mesh["tp"], plan)


# ------------------------------------------------------------------ inference


class Inference(nn.Module):
    """The logits, without a gradient: then transformers computes with local tensors."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Any) -> Any:
        with torch.no_grad():
            return self.net(input_ids=tokens).logits


# carries in modeling_llama.py: twice summed: hidden_states = residual + hidden_states
# carries in tensor_parallel.py: twice summed: output = output.redistribute(

INFERENCE = {
    "twice summed": {LAYERS + "mlp": "all_reduce"},  # planted: twice summed
    "rows of the next rank": {"model.embed_tokens": "rows"},
}


def inference(bug: str = "") -> Spec:
    def distributed(mesh: Any, rank: int) -> Any:
        net = model(4, 2, "unscaled" if bug == "scale of one rank" else "sdpa")
        return Inference(sharded(net, mesh, INFERENCE.get(bug)))

    return Spec(
        sequential=lambda: Inference(model(4, 2)),
        distributed=distributed,
        mesh=Mesh(tp=2),
        inputs={"tokens": c.Input((2, 8), "i64")},
    )


def attention_of_ranks(
    module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float = 1.0, **_: Any
) -> Any:
    """An attention of the user's that takes the rank's heads for all heads."""
    n = q.shape[1] // k.shape[1]
    k, v = (
        x[:, :, None].expand(-1, -1, n, -1, -1).reshape(*q.shape[:2], *x.shape[2:]) for x in (k, v)
    )
    width = module.config.hidden_size // q.shape[1]
    o = F.scaled_dot_product_attention(
        q, k, v, mask, scale=width**-0.5
    )  # planted: scale of one rank
    return o.transpose(1, 2).contiguous(), None


# ------------------------------------------------------------------ training


def tiled(module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float = 1.0, **_: Any) -> Any:
    """An attention of the user's that repeats the heads of keys and values in another order."""
    n = q.shape[1] // k.shape[1]
    k, v = (x.repeat(1, n, 1, 1) for x in (k, v))  # planted: tiled groups
    o = F.scaled_dot_product_attention(q, k, v, mask, scale=scaling)  # carries: tiled groups
    return o.transpose(1, 2).contiguous(), None


def adjacent(module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float = 1.0, **_: Any) -> Any:
    """The same, in the right order."""
    n = q.shape[1] // k.shape[1]
    k, v = (
        x[:, :, None].expand(-1, -1, n, -1, -1).reshape(*q.shape[:2], *x.shape[2:]) for x in (k, v)
    )
    o = F.scaled_dot_product_attention(q, k, v, mask, scale=scaling)
    return o.transpose(1, 2).contiguous(), None


if THERE:
    for name, function in (("unscaled", attention_of_ranks), ("tiled", tiled), ("mine", adjacent)):
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, sdpa_mask)

    class Rows(tensor_parallel.EmbeddingParallel):
        """A style of the user's: each rank looks up its own rows."""

        def install_forward(self, module: Any, mesh: Any) -> Any:
            def forward(ids: Any) -> Any:
                table = module.weight.to_local()
                rank = (mesh.get_local_rank() + 1) % mesh.size()
                ids = ids - rank * table.shape[0]  # planted: rows of the next rank
                absent = (ids < 0) | (ids >= table.shape[0])
                # The rows of other ranks' tokens.
                rows = F.embedding(
                    ids.masked_fill(absent, 0), table
                )  # carries: rows of the next rank
                rows = rows.masked_fill(absent.unsqueeze(-1), 0)
                dist.all_reduce(rows, group=mesh.get_group())
                return rows

            module.forward = forward
            return module

    class Local(tensor_parallel.RowwiseParallel):
        """A style of the user's that leaves out the sum."""

        def transform_output_post_forward(self, module: Any, output: Any, mesh: Any) -> Any:
            return output.to_local()  # planted: no sum after down_proj

    class Plain(tensor_parallel.ColwiseParallel):
        """A style of the user's on local tensors, without the sum of the gradient."""

        def transform_inputs_pre_forward(
            self, module: Any, args: Any, kwargs: Any, mesh: Any
        ) -> Any:
            return args, kwargs

        def install_forward(self, module: Any, mesh: Any) -> Any:
            def forward(x: Any) -> Any:
                return F.linear(x, module.weight.to_local())  # planted: no sum of the gradient

            module.forward = forward
            return module

    STYLES = {"rows": Rows(), "rowwise without sum": Local(), "colwise without sum": Plain()}
    for name, style in STYLES.items():
        tensor_parallel.ALL_PARALLEL_STYLES.register(name, style)

# carries in modeling_llama.py: no sum after down_proj: hidden_states = residual + hidden_states
# carries in modeling_llama.py: no sum of the gradient: self.weight * hidden_states
# carries in tensor_parallel.py: norm gradient summed: dist.all_reduce(param.grad

TRAINING: dict[str, dict[str, str]] = {
    "no sum after down_proj": {LAYERS + "mlp.down_proj": "rowwise without sum"},
    "no sum of the gradient": {LAYERS + "self_attn.q_proj": "colwise without sum"},
    "norm gradient summed": {
        LAYERS
        + "input_layernorm": "replicated_with_grad_allreduce"  # planted: norm gradient summed
    },
}


def trained(net: Any, optimizer: Any, bug: str = "", **inputs: Any) -> Any:
    """One step with clipping by the norm of all gradients."""
    loss = net(**inputs).loss
    if bug == "mean over ranks":
        loss = loss / dist.get_world_size()  # planted: mean over ranks
    loss.backward()
    clip(net.parameters(), bug)
    optimizer.step()
    return loss


def clip(parameters: Any, bug: str) -> None:
    """Clipping where some gradients are cut over the ranks and some are whole."""
    grads, squares = [], []
    for p in parameters:
        grad = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
        square = (grad * grad).sum()  # carries: norm of one rank
        # The gradient of the head's weight is whole on every rank, the weight is not.
        of = p if bug == "a whole gradient as cut" else p.grad  # planted: a whole gradient as cut
        if is_cut(of) and bug != "norm of one rank":
            dist.all_reduce(square)  # carries: a whole gradient as cut
        grads.append(grad)
        squares.append(square)
    norm = torch.stack(squares).sum().sqrt()  # planted: norm of one rank
    for grad in grads:
        grad.mul_(torch.clamp(0.01 / (norm + 1e-6), max=1.0))


def is_cut(t: Any) -> bool:
    return isinstance(t, DTensor) and any(p.is_shard() for p in t.placements)


def training(
    bug: str = "", ranks: int = 2, heads: int = 4, groups: int = 2, ours: str = "sdpa"
) -> Spec:
    def distributed(mesh: Any, rank: int) -> Any:
        net = model(heads, groups, "tiled" if bug == "tiled groups" else ours)
        return sharded(net, mesh, TRAINING.get(bug))

    return Spec(
        sequential=lambda: model(heads, groups, ours),
        distributed=distributed,
        mesh=Mesh(tp=ranks),
        inputs={k: c.Input((2, 8), "i64") for k in ("input_ids", "labels")},
        step=lambda *args, **inputs: trained(*args, bug=bug, **inputs),
        optimizer=c.adamw,
    )


def training_on_four(bug: str = "") -> Spec:
    return training(bug, 4, 8, 4)


def training_in_groups(bug: str = "") -> Spec:
    """An attention of the user's; every rank has two heads of keys and values."""
    return training(bug, 2, 8, 4, "mine")


CASES = [
    Case(
        "transformers llama, inference", inference,
        twins(inference, "rows of the next rank", "twice summed", "scale of one rank"),
    ),
    Case(
        "transformers llama, tp", training,
        twins(training, "no sum after down_proj", "no sum of the gradient", "mean over ranks",
              "norm of one rank", "a whole gradient as cut"),
        long=True,
    ),
    Case(
        "transformers llama, tp over four", training_on_four,
        twins(training_on_four, "no sum after down_proj", "norm gradient summed",
              "mean over ranks"),
        long=True,
    ),
    Case(
        "transformers llama, own attention", training_in_groups,
        twins(training_in_groups, "tiled groups", "no sum of the gradient", "norm of one rank"),
        long=True,
    ),
] if THERE else []  # fmt: skip
