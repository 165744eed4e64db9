"""Small repositories of the usual kinds, by path."""

from __future__ import annotations

TOUCH = """
from pathlib import Path
Path("was_run").touch()
"""

PLAN = {
    "mlp/__init__.py": "",
    "mlp/model.py": """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self, hidden=16, vocab=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.block = Block(hidden)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, tokens, labels):
        logits = self.head(self.block(self.embed(tokens)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
""",
    "mlp/parallel.py": """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def make_mesh(n):
    return init_device_mesh("cuda", (n,), mesh_dim_names=("tp",))


def apply_tp(model, tp_mesh, verbose=False):
    plan = {"block.up": ColwiseParallel(), "block.down": RowwiseParallel()}
    return parallelize_module(model, tp_mesh, plan)
""",
    "train.py": TOUCH + "\nfor step in range(3):\n    print(step)\n",
    "run.sh": "#!/bin/sh\ntorchrun --nnodes=1 \\\n  --nproc-per-node=8 train.py\n",
    "tests/test_model.py": "from torch import nn\nclass Fake(nn.Module):\n    pass\n",
}

DDP = {
    "src/toy/__init__.py": "",
    "src/toy/train.py": """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


def main():
    model = DDP(Toy())
    optimizer = torch.optim.AdamW(model.parameters())


if __name__ == "__main__":
    main()
""",
    "README.md": "Run `torchrun --nproc_per_node $GPUS src/toy/train.py`.\n",
}

BY_HAND = {
    "tp.py": """
import torch
import torch.distributed as dist
from torch import nn


class Down(nn.Module):
    def __init__(self, hidden, group=None):
        super().__init__()
        ranks = 1 if group is None else dist.get_world_size(group)
        self.group = group
        self.weight = nn.Parameter(torch.empty(hidden, hidden // ranks))

    def forward(self, h):
        y = h @ self.weight.t()
        if self.group is not None:
            dist.all_reduce(y, group=self.group)
        return y


class Mlp(nn.Module):
    def __init__(self, hidden=16, group=None):
        super().__init__()
        ranks = 1 if group is None else dist.get_world_size(group)
        self.up = nn.Linear(hidden, hidden // ranks, bias=False)
        self.down = Down(hidden, group)

    def forward(self, input_ids):
        x = nn.functional.one_hot(input_ids, 16).to(torch.float32)
        return self.down(torch.relu(self.up(x)))
""",
}

FSDP = {
    "model.py": """
from torch import nn


class Layer(nn.Module):
    def forward(self, x):
        return x


class Model(nn.Module):
    def __init__(self, config: "Config"):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(config.layers))

    def forward(self, x, scale=1.0):
        return x
""",
    "wrap.py": """
from torch.distributed.fsdp import fully_shard


def shard(model, mesh, policy):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
""",
}

PRETRAINED = {
    "finetune.py": """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("some/model")
""",
    "broken.py": "def f(:\n",
    "binary.py": "\0\0",
}

BUILDER = {
    "net.py": """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, tokens):
        return self.layer(nn.functional.one_hot(tokens, 4).float())


def sharded(mesh, rank):
    net = Net()
    fully_shard(net, mesh=mesh["dp"])
    return net


def wrapped(net):
    return DistributedDataParallel(net)
""",
}

PAIR = {
    "comm.py": """
import torch
import torch.distributed as dist


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def reduced(x, group):
    return Sum.apply(x, group)
""",
    "models.py": """
import torch.distributed as dist
from comm import reduced
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, tokens):
        return self.down(self.up(nn.functional.one_hot(tokens, 8).float()).relu())


class ShardedMlp(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()

    def forward(self, y):
        return y


class TPBlock(nn.Module):
    def __init__(self, shard_over: dist.ProcessGroup, hidden=8):
        super().__init__()
        ranks = dist.get_world_size(shard_over)
        self.group = shard_over
        self.up = nn.Linear(hidden, 4 * hidden // ranks)
        self.down = nn.Linear(4 * hidden // ranks, hidden, bias=False)

    def forward(self, tokens):
        y = self.up(nn.functional.one_hot(tokens, 8).float()).relu()
        return reduced(self.down(y), self.group)
""",
}

ALL_RANKS = {
    "net.py": """
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        part = 4 * hidden // dist.get_world_size()
        self.up = nn.Linear(hidden, part)
        self.down = nn.Linear(part, hidden, bias=False)

    def forward(self, tokens):
        y = self.down(self.up(nn.functional.one_hot(tokens, 8).float()).relu())
        dist.all_reduce(y)
        return y
""",
}

MESHED = {
    "net.py": """
from dataclasses import dataclass
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


@dataclass
class Config:
    inner: int = 8


@dataclass
class Other:
    inner: int


class Net(nn.Module):
    def __init__(self, width: int, config: "Config"):
        super().__init__()
        self.up = nn.Linear(config.inner, width)
        self.down = nn.Linear(width, config.inner)

    def forward(self, tokens):
        return self.down(self.up(nn.functional.one_hot(tokens, 8).float()).relu())


class ParallelNet(Net):
    def __init__(self, width: int, config: Config, mesh, world_size):
        super().__init__(width, config)
        assert mesh.size() == world_size
        parallelize_module(self, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
""",
}

STATE = {
    "state.py": """
import torch.distributed as dist

_GROUP = None


def initialize_model_parallel(tensor_model_parallel_size=1, backend="nccl"):
    global _GROUP
    for start in range(0, dist.get_world_size(), tensor_model_parallel_size):
        ranks = list(range(start, start + tensor_model_parallel_size))
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            _GROUP = group


def get_group():
    assert _GROUP is not None
    return _GROUP
""",
    "net.py": """
import torch.distributed as dist
from state import get_group
from torch import nn


class Net(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        part = 4 * hidden // dist.get_world_size(get_group())
        self.up = nn.Linear(hidden, part)
        self.down = nn.Linear(part, hidden, bias=False)

    def forward(self, tokens):
        y = self.down(self.up(nn.functional.one_hot(tokens, 8).float()).relu())
        dist.all_reduce(y, group=get_group())
        return y
""",
}

SCRIPT = {
    "model.py": """
from dataclasses import dataclass
from torch import nn


@dataclass
class NetConfig:
    width: int = 8
    vocab: int = 12


@dataclass
class RunConfigs:
    steps: int = 3


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.width)
        self.head = nn.Linear(config.width, config.vocab)

    def forward(self, idx, targets=None):
        logits = self.head(self.embed(idx))
        loss = None
        if targets is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss
""",
    "train.py": """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from model import Net, NetConfig

model = Net(NetConfig(width=4))
optimizer = torch.optim.AdamW(model.parameters())
model = DDP(model, device_ids=[0])
""",
}

USES = {
    "model.py": """
import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 4)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, y):
        t = y.view(-1)
        return self.loss(self.outer(self.inner(x)), t.long())


class Regression(nn.Module):
    def forward(self, x, labels):
        return F.mse_loss(x, target=labels)


class Named(nn.Module):
    def forward(self, labels, token_ids, num_tokens):
        return labels


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 8)

    def forward(self, x, where, codes, weight, a, b, c):
        x = torch.gather(x, 1, where[:, 1:]) + F.embedding(codes, weight)
        return x.gather(1, a) + F.cross_entropy(x, target=b) + self.table(c)
""",
}

MESHES = {
    "mesh.py": """
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
""",
    "run.sh": "torchrun --nproc-per-node=6 train.py\n",
    "model.py": """
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x
""",
}

EMPTY = {"notes.md": "nothing here\n"}
