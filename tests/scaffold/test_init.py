"""`shardproof init` on small repositories: what it finds and writes, and that it runs nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scaffold import repos

from shardproof.cli.app import main
from shardproof.scaffold.choose import choose, is_whole
from shardproof.scaffold.look import look
from shardproof.scaffold.parallel import told

SRC = Path(__file__).parents[2] / "src"
ALL = [
    "PLAN",
    "DDP",
    "BY_HAND",
    "FSDP",
    "PRETRAINED",
    "BUILDER",
    "PAIR",
    "ALL_RANKS",
    "MESHED",
    "USES",
]


@pytest.fixture
def repo(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in getattr(repos, request.param).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(repo: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert main(["init"]) == 0
    return (repo / "check_first.py").read_text(), capsys.readouterr().out


@pytest.mark.parametrize("repo", ALL, indirect=True)
def test_it_writes_python_and_runs_nothing(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(p for p in repo.rglob("*"))
    text, out = written(repo, capsys)
    tree = ast.parse(text)
    assert "first" in [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    assert all(len(line) <= 200 for line in text.split("\n"))
    assert sorted(p for p in repo.rglob("*")) == sorted([*before, repo / "check_first.py"])
    assert "shardproof check check_first.py:first" in out
    assert "nothing was run" in out


@pytest.mark.parametrize("repo", ["PLAN"], indirect=True)
def test_a_plan_in_a_function_is_called(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = written(repo, capsys)
    assert "    return Net()\n" in text
    assert '    built = apply_tp(built, mesh["tp"])\n' in text
    assert "from mlp.parallel import apply_tp" in text
    assert '"tokens": Input((4, 16), "i64")' in text
    assert "TODO(" not in text.replace("def TODO(", "")
    assert "model: Net at mlp/model.py:16" in out
    assert "launched on 8 ranks: run.sh:2" in out
    assert "        # the 8 ranks that run.sh:2 starts\n        mesh=Mesh(tp=8),\n" in text
    assert "Fake" not in out
    done = check(repo)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("refines")


def check(repo: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shardproof", "check", "check_first.py:first", "--no-cache"],
        cwd=repo, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(SRC)},
    )  # fmt: skip


@pytest.mark.parametrize("repo", ["BY_HAND"], indirect=True)
def test_code_that_communicates_by_itself(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = written(repo, capsys)
    assert "    return Mlp()\n" in text
    assert '    return Mlp(group=mesh.get_group("tp"))\n' in text
    assert "collective: tp.py:17: dist.all_reduce(y, group=self.group)" in out
    done = check(repo)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("repo", ["DDP"], indirect=True)
def test_ddp_in_a_script_below_src(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = written(repo, capsys)
    assert 'sys.path.insert(0, str(Path(__file__).parent / "src"))' in text
    assert "from toy.train import Toy" in text
    assert "    built = model()\n" in text
    assert "    built = DistributedDataParallel(built)\n" in text
    assert '# forward only: no gradient is checked; use step="backward"' in text
    assert "mesh=Mesh(dp=2)" in text
    assert "launched on ? ranks: README.md:1" in out
    done = check(repo)
    assert done.returncode == 2
    assert done.stderr == (
        "error: check_first.py is not finished: fill in the shape of x, such as (8, 64)\n"
        f"  where: check_first.py:{line_of('Input(TODO', text)}\n"
        "  expected: a file without TODO(...)\n"
        "  next: write it there in place of TODO(...)\n"
    )


@pytest.mark.parametrize("repo", ["FSDP"], indirect=True)
def test_holes_are_named(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = written(repo, capsys)
    assert "Model(config=TODO(\"config: 'Config'\"))" in text
    assert 'shard(built, mesh["dp"], policy=TODO("policy"))' in text
    assert '"scale"' not in text
    assert "with 3 holes" in out
    done = check(repo)
    assert done.returncode == 2
    assert "fill in the shape of x" in done.stderr
    path = repo / "check_first.py"
    path.write_text(text.replace('TODO("the shape of x, such as (8, 64)")', "(4, 8)"))
    done = check(repo)
    assert done.returncode == 2
    assert f"check_first.py:{line_of('config=TODO', text)}\n" in done.stderr
    assert "check_first.py is not finished: fill in config: 'Config'\n" in done.stderr


def line_of(part: str, text: str) -> int:
    return next(k for k, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize("repo", ["PAIR"], indirect=True)
def test_the_class_that_takes_a_group_is_the_program_of_a_rank(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = written(repo, capsys)
    assert "    return Block()\n" in text
    assert '    return TPBlock(shard_over=mesh.get_group("tp"))\n' in text
    assert "from models import Block, TPBlock\n" in text
    assert "the model of a rank: TPBlock at models.py:" in out
    assert "another model: ShardedMlp" in out
    done = check(repo)
    assert done.stdout.startswith("refines"), done.stdout + done.stderr
    assert "itself" not in done.stdout


@pytest.mark.parametrize("repo", ["ALL_RANKS"], indirect=True)
def test_a_class_that_communicates_over_all_ranks(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = written(repo, capsys)
    assert "this one, on one rank" in text
    assert text.count("    return Net()\n") == 2
    done = check(repo)
    assert done.stdout.startswith("refines"), done.stdout + done.stderr
    assert "itself" not in done.stdout


@pytest.mark.parametrize("repo", ["STATE"], indirect=True)
def test_groups_that_a_function_makes_are_made_first(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = written(repo, capsys)
    size = 'mesh["tp"].size()'
    assert f"    initialize_model_parallel(tensor_model_parallel_size={size})\n" in text
    assert "    initialize_model_parallel(tensor_model_parallel_size=1)\n" in text
    assert "from state import initialize_model_parallel\n" in text
    done = check(repo)
    assert done.stdout.startswith("refines"), done.stdout + done.stderr
    assert "itself" not in done.stdout


@pytest.mark.parametrize("repo", ["MESHED"], indirect=True)
def test_a_class_that_makes_itself_parallel(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = written(repo, capsys)
    assert '    return Net(width=TODO("width: int"), config=Config())\n' in text
    assert "from net import Config, Net, ParallelNet\n" in text
    given = 'config=Config(), mesh=mesh["tp"], world_size=mesh["tp"].size()'
    assert f'    return ParallelNet(width=TODO("width: int"), {given})\n' in text
    assert "with 2 holes" in out
    (repo / "check_first.py").write_text(text.replace('TODO("width: int")', "16"))
    done = check(repo)
    assert done.stdout.startswith("refines"), done.stdout + done.stderr


@pytest.mark.parametrize("repo", ["BUILDER"], indirect=True)
def test_a_function_that_builds_the_model_of_a_rank(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = written(repo, capsys)
    assert "    built = sharded(mesh, rank)\n" in text
    assert "built = model()" not in text
    assert "wrapped" not in text
    assert "mesh=Mesh(dp=2)" in text
    assert "TODO" not in text


@pytest.mark.parametrize("repo", ["SCRIPT"], indirect=True)
def test_data_parallel_ranks_have_parts_of_the_batch(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = written(repo, capsys)
    assert "    return Net(config=NetConfig())\n" in text
    assert "from model import Net, NetConfig\n" in text
    assert '"idx": Input((4, 16), "i64", Shard(0))' in text
    assert "from shardproof import Input, Mesh, Shard, Spec\n" in text
    assert "        loss=lambda output, **inputs: output[1],\n" in text
    assert '        outputs={"loss": None},' in text
    assert "TODO" not in text
    done = check(repo)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "\nSP123 " in done.stdout  # tokens that count may be more on one rank
    path = repo / "model.py"
    path.write_text(
        path.read_text().replace(
            "targets.flatten())", "targets.flatten(), reduction='sum') / targets.numel()"
        )
    )
    done = check(repo)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("repo", ["EMPTY"], indirect=True)
def test_a_folder_without_python(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert not (repo / "check_first.py").exists()
    assert err.splitlines()[:3] == [
        "error: there is no Python file in .",
        f"  where: {repo}",
        "  expected: the root of a repository that has the code of a model",
    ]
    assert "  next: give its path: shardproof init FOLDER; for printed graphs" in err


@pytest.mark.parametrize("repo", ["USES"], indirect=True)
def test_whole_numbers_are_known_by_their_use(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = written(repo, capsys)
    assert '"x": Input(TODO("the shape of x, such as (8, 64)")),' in text
    assert '"y": Input(TODO("the shape of y, such as (4,)"), "i64"),' in text
    models = {m.name: m for m in look(repo).models}
    assert models["Classifier"].wholes == {"y"}
    assert models["Regression"].reals == {"labels"}
    assert models["Rows"].ids == {"codes", "c"}
    assert models["Rows"].wholes == {"where", "a", "b"}
    for name, whole in (("Classifier", "y"), ("Regression", ""), ("Named", "labels token_ids")):
        m = models[name]
        assert [a.name for a in m.forward if is_whole(a, m)] == whole.split()


@pytest.mark.parametrize("nodes", ["", "--nnodes=1", "--nnodes 2", "--nnodes=$N", "--nnodes=8"])
@pytest.mark.parametrize("repo", ["MESHES"], indirect=True)
def test_the_ranks_of_a_launch_are_those_of_the_mesh(
    repo: Path, nodes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo / "mesh.py").unlink()
    (repo / "run.sh").write_text(f"torchrun {nodes} --nproc-per-node=4 train.py\n")
    text, _ = written(repo, capsys)
    first, mesh = re.findall(r"    return Spec\([^#]*((?:#.*\n *)*)(mesh=.*)", text)[0]
    ranks = {"": 4, "--nnodes=1": 4, "--nnodes 2": 8, "--nnodes=$N": 0, "--nnodes=8": 32}[nodes]
    assert mesh == f"mesh=Mesh(tp={ranks if 0 < ranks <= 8 else 2}),"
    said = {0: "", 32: "# run.sh:1 starts 32 ranks; few are enough for a first check"}
    assert first.strip() == said.get(ranks, f"# the {ranks} ranks that run.sh:1 starts")


@pytest.mark.parametrize(
    ("shape", "axes", "said"),
    [
        ("(2, 4)", {"dp": 2, "tp": 4}, "the extents of mesh.py:4"),
        ("(4, 8)", {"dp": 2, "tp": 2}, "run.sh:1 starts 6 ranks; few are enough for a first check"),
        ("(n, 2)", {"dp": 2, "tp": 2}, "run.sh:1 starts 6 ranks; few are enough for a first check"),
    ],
)
@pytest.mark.parametrize("repo", ["MESHES"], indirect=True)
def test_the_extents_of_a_mesh(repo: Path, shape: str, axes: dict[str, int], said: str) -> None:
    path = repo / "mesh.py"
    path.write_text(path.read_text().replace("(2, 4)", shape))
    choice = choose(look(repo))
    assert choice.axes == axes
    assert choice.counted == said


@pytest.mark.parametrize("repo", ["SCRIPT"], indirect=True)
def test_the_batch_is_shared_by_the_ranks_of_the_launch(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo / "run.sh").write_text("torchrun --nproc-per-node=3 train.py\n")
    text, _ = written(repo, capsys)
    assert "mesh=Mesh(dp=3)," in text
    assert '"idx": Input((6, 16), "i64", Shard(0))' in text


@pytest.mark.parametrize("repo", ["SCRIPT"], indirect=True)
def test_checks_are_no_part_of_what_is_checked(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = written(repo, capsys)
    assert "DistributedDataParallel(built)" in text
    (repo / "check_more.py").write_text(
        "from shardproof import Spec\n\n\ndef check():\n    fully_shard(x)\n    return Spec()\n"
    )
    assert main(["init", "--force"]) == 0
    assert (repo / "check_first.py").read_text() == text
    for name in ("model.py", "train.py", "check_more.py"):
        (repo / name).unlink()
    assert main(["init", "--force"]) == 2


@pytest.mark.parametrize("repo", ["PRETRAINED"], indirect=True)
def test_without_a_model_of_its_own(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out = written(repo, capsys)
    assert "Spec.from_graphs(" in text
    assert "with 3 holes" in out
    done = check(repo)
    assert done.returncode == 2
    assert "fill in the path of the graph on one rank" in done.stderr
    assert "pretrained weights: finetune.py:3" in out
    assert "not read: binary.py, broken.py" in out


@pytest.mark.parametrize("repo", ["PLAN"], indirect=True)
def test_nothing_is_written_over(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repo / "check_first.py").write_text("mine")
    assert main(["init"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (repo / "check_first.py").read_text() == "mine"
    assert main(["init", "--output", "check_other.py"]) == 0
    assert main(["init", "--force"]) == 0
    assert main(["init", "nowhere"]) == 2
    assert main(["init", "--output", "no/folder.py"]) == 2


@pytest.mark.parametrize("repo", ["PLAN"], indirect=True)
def test_code_that_runs_on_import_is_noticed(repo: Path) -> None:
    seen = look(repo)
    assert {seen.shown(p) for p in seen.runs_on_import} == {"train.py"}
    assert choose(seen).axes == {"tp": 8}


def test_our_own_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = Path(__file__).parents[2] / "examples"
    seen = look(examples)
    choice = choose(seen)
    assert choice.model is not None
    assert choice.model.name == "Transformer"
    assert choice.by_hand is choice.model
    assert [a.name for a in told(choice.model)] == ["group"]


def test_torch_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom shardproof.cli.app import main\n"
        f"main(['init', {str(tmp_path)!r}])\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(SRC)},
    )  # fmt: skip
    assert done.stdout.endswith("False False\n"), done.stderr
