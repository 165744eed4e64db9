"""Whatever is wrong with a dump or with the facts is one clear error."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.texts import PLAIN, module

from shardproof.errors import InputError, shorten
from shardproof.frontends.import_fx import import_fx

ADD = '%s: "f32[4]" = torch.ops.aten.add.Tensor(%s, %s)'


def fails(text: str | Path, match: str, where: str = "<text>:", **facts: Any) -> InputError:
    with pytest.raises(InputError, match=match) as info:
        import_fx(text, **facts)
    error = info.value
    assert error.exit_code == 2
    assert where in error.where
    lines = str(error).splitlines()
    assert len(lines) == 4
    assert all(len(line) < 400 for line in lines)
    assert error.expected
    assert error.next_step
    return error


def test_truncated() -> None:
    whole = module('x: "f32[4]"', ADD % ("y", "x", "x"), returns="y")
    fails(whole[: whole.index("return")], "no return statement: the dump is truncated")
    fails(whole[: whole.index("(x, x)") + 4], "truncated", "<text>:3")
    fails(whole[:-3], "truncated")
    fails(whole[:70], "truncated", "<text>:2")


def test_names() -> None:
    x = 'x: "f32[4]"'
    fails(module(x, ADD % ("y", "x", "z"), returns="y"), "'z' is not defined", "<text>:3")
    fails(module(x, ADD % ("y", "x", "x"), ADD % ("y", "x", "x"), returns="y"),
          "'y' is defined twice", "<text>:4")  # fmt: skip
    fails(module(x, ADD % ("x", "x", "x"), returns="x"), "'x' is defined twice")
    fails(module(x, returns="y"), "'y' is not defined")
    fails(module("x", ADD % ("y", "x", "x"), returns="y"), "'x' has no type annotation")


def test_types() -> None:
    fails(module('x: "q4[4]"', returns="x"), "unknown element type 'q4'", "<text>:2")
    wrong = 'y: "f32[5]" = torch.ops.aten.neg.default(x)'
    e = fails(module('x: "f32[4]"', wrong, returns="y"), "annotation says f32.5.", "<text>:3")
    assert "gives f32[4]" in e.what
    wrong = 'y: "i64[4]" = torch.ops.aten.neg.default(x)'
    fails(module('x: "f32[4]"', wrong, returns="y"), "annotation says i64")
    wrong = 'y: "f32[4]" = torch.ops.aten.mm.default(x, x)'
    fails(module('x: "f32[4, 3]"', wrong, returns="y"), "arguments of aten.mm.default do not fit")
    wrong = 'y: "f32[4]" = torch.ops.aten.add.Tensor(x)'
    fails(module('x: "f32[4]"', wrong, returns="y"), "do not fit.*missing")
    wrong = 'y: "f32[2]" = torch.ops.aten.view.default(x, [-1, 3])'
    fails(module('x: "f32[4]"', wrong, returns="y"), "does not fit 4 elements")


def test_syntax() -> None:
    for line in ("y = $", "y = (", "y = 'abc", "= 3", "y : ", "y = x[", "y = f(a = 1, 2)",
                 "y = f(a = 1, a = 2)", "y = " + "(" * 500, "y = 1" + "+1" * 5000,
                 "y = {x: 1}", "y z", "import os; os.system", "y = " + "9" * 100):  # fmt: skip
        fails(module('x: "f32[4]"', line, "z = x", returns="x"), "cannot read", "<text>:3")


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    line = f"y = __import__('os').system('touch {mark}')"
    fails(module('x: "f32[4]"', line, returns="x"), "cannot read")
    line = f"y = os.system('touch {mark}')"
    assert import_fx(module('x: "f32[4]"', line, returns="x")).unknown == {"os.system": 1}
    assert not mark.exists()


def test_files(tmp_path: Path) -> None:
    fails(tmp_path / "missing.txt", "No such file", "missing.txt")
    fails(tmp_path, "cannot read", str(tmp_path))
    (tmp_path / "bin").write_bytes(b"\0\1\2" * 100)
    fails(tmp_path / "bin", "binary", "bin")
    (tmp_path / "latin").write_bytes("def forward(é)\n".encode("latin-1"))
    fails(tmp_path / "latin", "not UTF-8", "latin:1")
    (tmp_path / "empty").write_text("")
    fails(tmp_path / "empty", "no printed FX graph", "empty:1")
    (tmp_path / "other").write_text("HloModule jit_f\n" * 10)
    fails(tmp_path / "other", "starts with 'HloModule jit_f'", "other:1")


@pytest.mark.parametrize("kind", ["letters", "lines", "binary", "headed", "one line", "nested"])
def test_garbage_of_100_megabytes(tmp_path: Path, kind: str) -> None:
    n = 100_000_000
    blocks = {
        "letters": b"garbage ", "lines": b"\n", "binary": bytes(range(256)), "headed": b"a = b\n",
        "one line": b"x, ", "nested": b"(",
    }  # fmt: skip
    block = blocks[kind]
    path = tmp_path / "garbage.txt"
    with open(path, "wb") as f:
        if kind in ("headed", "one line", "nested"):
            f.write(b"class A(M):\n    def forward(self, ")
        for _ in range(100):
            f.write(block * (n // len(block) // 100))
    started = time.process_time()
    fails(path, ".", "garbage.txt")
    assert time.process_time() - started < 1


@pytest.mark.parametrize("block", ["a = b\n", "x, ", "(", "y: ", "\n", "'", "# File: a:1 in f\n"])
@pytest.mark.parametrize("head", ["", "def forward(self, x):\n", "def forward(self, "])
def test_garbage_below_the_limit(block: str, head: str) -> None:
    text = "class A(M):\n    " + head + block * (3_000_000 // len(block)) + "\n"
    started = time.process_time()
    fails(text, ".")
    assert time.process_time() - started < 6


def test_groups() -> None:
    text = module('x: "f32[4]"', 'y: "f32[4]" = torch.ops._c10d_functional.all_reduce.default'
                  "(x, 'sum', '12')", returns="y")  # fmt: skip
    e = fails(text, "group '12' of the collective _c10d_functional.all_reduce.default 'y' is not")
    assert 'groups={"12": (0, 1, ...)}' in e.next_step
    fails(text, "does not contain rank 3", rank=3, groups={"12": (0, 1)})
    fails(text, "does not contain rank 3", rank=3, groups={"12": [(0, 1), (4, 5)]})
    gather = 'y: "f32[8]" = torch.ops._c10d_functional.all_gather_into_tensor.default(x, 2, "12")'
    e = fails(module('x: "f32[4]"', gather, returns="y"), "has 2 members.*declared one has 4",
              groups={"12": (0, 1, 2, 3)})  # fmt: skip
    assert 'groups["12"]' in e.next_step
    cast = 'y: "f32[4]" = torch.ops._c10d_functional.broadcast.default(x, 5, "12")'
    fails(module('x: "f32[4]"', cast, returns="y"), "member 5 of a group of 2",
          groups={"12": (0, 1)})  # fmt: skip


def test_constants() -> None:
    text = module('x: "i64[4]"', "c = self._tensor_constant0",
                  'y: "i64[4]" = torch.ops.aten.add.Tensor(x, c)', returns="y")  # fmt: skip
    e = fails(text, "the type of the module attribute _tensor_constant0 is not printed")
    assert "constants={" in e.next_step
    lift = 'y: "i64[]" = torch.ops.aten.lift_fresh_copy.default(c)'
    copied = module('x: "i64[4]"', "c = self._tensor_constant0", lift, returns="y")
    fails(copied, "does not fit its type", constants={"_tensor*": float("inf")})


def test_kernels() -> None:
    text = module('x: "f32[4]"', 'y: "f32[4]" = torch.ops.my.op.default(x)', returns="y")

    def broken(ctx: Any, x: Any) -> Any:
        raise KeyError("lost")

    fails(text, "your kernel for my.op.default failed: KeyError", kernels={"my.op": broken})
    fails(text, "gives f32.2, 2., its annotation says f32.4.",
          kernels={"my.op": lambda ctx, x: ctx.reshape(x, (2, 2))})  # fmt: skip


def test_choice_of_graph() -> None:
    with pytest.raises(ValueError, match="dropout"):
        import_fx(PLAIN, dropout="sometimes")
    fails(PLAIN, "names none", graph="backward")
    fails(PLAIN, "names none", graph=3)


def test_shorten() -> None:
    assert shorten("a\tb\x1b[31m\n c" * 100, 20) == "a b [31m ca b [31..."
