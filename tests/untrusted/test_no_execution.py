"""Nothing that is read is ever executed: no code of ours calls what could do that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "shardproof"
CALLS = ("eval", "exec", "compile", "__import__", "execfile")
MODULES = (
    "pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "code", "codeop", "runpy",
    "ctypes", "yaml", "subprocess",
)  # fmt: skip
LOADS = ("torch.load", "numpy.load", "np.load", "np.fromfile", "os.system", "os.popen")
ALLOWED = {
    # The user's own Spec, named on the command line, is a Python program that the user runs.
    ("cli/target.py", "importlib.util"),
    # What the user's own program, which is run, passes between its ranks; it stays in the process.
    ("frontends/torch_capture/objects.py", "pickle"),
    # Lazy imports of names that the package lists itself.
    ("__init__.py", "importlib"),
    ("elastic/__init__.py", "importlib"),
    ("examples/bugs/__init__.py", "importlib"),
    # The trainer starts the user's training script and loads the policy that the user names.
    ("elastic/train/policy.py", "importlib"),
    ("elastic/train/launch.py", "subprocess"),
    ("elastic/cli.py", "subprocess"),
}


def findings(tree: ast.AST) -> Iterator[str]:
    """What in a module could execute data."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, given = ast.unparse(node.func), {k.arg: k.value for k in node.keywords}
            tensors = "weights_only" in given and ast.unparse(given["weights_only"]) == "True"
            if name in CALLS or (name in LOADS and not (name == "torch.load" and tensors)):
                yield name
            for word in ("allow_pickle", "shell"):
                if word in given and ast.unparse(given[word]) != "False":
                    yield word
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if suspicious(a.name))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
            yield from dict.fromkeys(node.module for n in names if suspicious(n))


def suspicious(module: str) -> bool:
    harmless = ("importlib.resources", "importlib.metadata", "importlib.util.find_spec")
    return module.split(".")[0] in (*MODULES, "importlib") and not module.startswith(harmless)


def test_no_module_executes_data() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), what)
        for path in SOURCE.rglob("*.py")
        for what in findings(ast.parse(path.read_text()))
    }
    assert not sorted(found - ALLOWED)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("eval('1')", "eval"),
        ("import pickle", "pickle"),
        ("from marshal import loads", "marshal"),
        ("np.load(f, allow_pickle=True)", "np.load"),
        ("run(x, shell=True)", "shell"),
        ("import importlib.util", "importlib.util"),
        ("import torch\ntorch.load(f)", "torch.load"),
        ("from importlib import import_module", "importlib"),
    ],
)
def test_the_search_finds_it(text: str, what: str) -> None:
    assert what in set(findings(ast.parse(text)))


def test_the_search_lets_the_rest_pass() -> None:
    text = "from importlib import resources\nmodel.eval()\nre.compile('a')\nx.load(f)\n"
    assert not list(findings(ast.parse(text + "torch.load(f, weights_only=True)")))
