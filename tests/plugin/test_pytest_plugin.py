"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_outputs import CHECK

from shardproof.pytest_plugin import NotRefined, assert_refines
from shardproof.report.json import from_json

pytest_plugins = ["pytester"]
SRC = Path(__file__).parents[2] / "src"

TESTS = """\
import pytest
from check import check, two, wrong
from shardproof.pytest_plugin import assert_refines


def test_right():
    assert assert_refines(two()).status == "refines"


def test_wrong():
    spec = wrong(2)
    assert_refines(spec)


def test_fixture(assert_refines):
    assert_refines(two())


@pytest.mark.shardproof_matrix(tp=[1, 2], dp=[1, 2])
def test_matrix(tp, dp):
    assert_refines(check(tp, dp))


def test_nothing_of_ours():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    pytester.makepyfile(check=CHECK)
    pytester.makepyfile(test_mine=TESTS)
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("-p", "shardproof.pytest_plugin", *arguments)


def test_the_entry_point_names_the_module() -> None:
    text = (SRC.parent / "pyproject.toml").read_text()
    assert '"shardproof.pytest_plugin" = "shardproof.pytest_plugin"' in text
    for found in importlib.metadata.entry_points(group="pytest11"):
        if "shardproof" in found.value:
            assert found.name == found.value


@pytest.mark.parametrize("extra", [[], ["-n", "2"]], ids=["one process", "xdist"])
def test_results_and_summary(suite: pytest.Pytester, extra: list[str]) -> None:
    done = run(suite, "--shardproof-report", "reports", *extra)
    done.assert_outcomes(passed=7, failed=1)
    out = done.stdout.str()
    section = out[out.index("= shardproof =") :].split("short test summary")[0].splitlines()
    found = [line for line in section if line.startswith(("refines", "refuted"))]
    assert len(found) == 7
    assert sum(line.startswith("refines  test_mine.py::test_matrix[tp=") for line in found) == 4
    (refuted,) = [line for line in found if line.startswith("refuted")]
    assert refuted.startswith("refuted  test_mine.py::test_wrong [SP111]: 0 of 1 outputs proved")
    folders = sorted(p.name for p in (suite.path / "reports").iterdir())
    assert len(folders) == 7
    assert "test_mine.py_test_matrix_tp=2-dp=1" in folders
    report = suite.path / "reports" / "test_mine.py_test_wrong" / "report.json"
    assert from_json(report.read_bytes()).status == "refuted"
    assert "<html" in (report.parent / "index.html").read_text()


def test_a_failure_is_the_finding_and_no_traceback(suite: pytest.Pytester) -> None:
    done = run(suite, "-k", "wrong", "--no-header")
    out = done.stdout.str()
    text = out[out.index("= FAILURES =") : out.index("= shardproof =")].splitlines()
    assert text[2].startswith("refuted: test_wrong: 0 of 1 outputs proved")
    assert text[3] == "  at test_mine.py:12 in test_wrong"
    assert any(line.startswith("SP111 value too large by a whole factor") for line in text)
    assert any("= replayed: " in line for line in text)
    assert "FAILED test_mine.py::test_wrong - refuted: test_wrong: 0 of 1" in out
    assert len(text) < 50
    assert "verify.py" not in out
    assert "Traceback" not in out


def test_an_unusable_spec_is_one_message(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_mine="""
        from check import check
        from shardproof.pytest_plugin import assert_refines

        def test_bad():
            assert_refines(check(3))
        """
    )
    done = run(suite)
    done.assert_outcomes(failed=1)
    out = done.stdout.str()
    assert "\n  at test_mine.py:5 in test_bad\n  where: " in out
    assert "  next: " in out
    assert "def _resolved" not in out


def test_unproved_is_a_failure(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_mine="""
        from shardproof import Mesh, Replicate, Spec
        from shardproof.pytest_plugin import assert_refines

        ONE = "graph a\\n%x = input f32[2]\\n%y = exp(%x)\\nreturn %y\\n"
        TWO = "graph b\\n%x = input f32[2]\\n%z = log(%x)\\n%y = sin(%z)\\nreturn %y\\n"

        def test_other():
            spec = Spec.from_graphs(
                sequential=ONE, distributed=[TWO], inputs={"*": Replicate()}
            )
            assert_refines(spec, replay=False)
        """
    )
    done = run(suite)
    done.assert_outcomes(failed=1)
    assert "unproved: test_other" in done.stdout.str()


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("tp=[1], pp=[2]", "test_bad: shardproof_matrix names pp, which is no argument of it"),
        ("[1, 2]", "write @pytest.mark.shardproof_matrix(tp=[1, 2], dp=[1, 2])"),
        ("", "write @pytest.mark.shardproof_matrix(tp=[1, 2], dp=[1, 2])"),
        ("tp=[0]", "tp is [0], not mesh extents"),
        ("tp=[True]", "tp is [True], not mesh extents"),
        ("tp=[]", "tp is [], not mesh extents"),
    ],
)
def test_a_wrong_mark_is_a_clear_error(suite: pytest.Pytester, mark: str, message: str) -> None:
    suite.makepyfile(
        test_mine=f"""
        import pytest

        @pytest.mark.shardproof_matrix({mark})
        def test_bad(tp):
            pass
        """
    )
    done = run(suite)
    assert done.ret != 0
    assert message in done.stdout.str() + done.stderr.str()


def test_collection_imports_nothing_heavy(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_mine="""
        import pytest
        from shardproof.pytest_plugin import assert_refines

        @pytest.mark.shardproof_matrix(tp=[1, 2])
        def test_one(tp):
            from check import check
            assert_refines(check(tp))
        """
    )
    code = (
        "import sys, pytest\n"
        "code = pytest.main(['--collect-only', '-q', '-p', 'shardproof.pytest_plugin'])\n"
        "heavy = {'torch', 'numpy', 'rich', 'msgspec', 'shardproof.spec.spec', 'shardproof.ops'}\n"
        "print(code, sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=suite.path
    )
    assert done.stdout.rstrip().endswith("0 []"), done.stdout + done.stderr


def test_outside_of_a_test_it_is_a_plain_function() -> None:
    namespace: dict[str, object] = {}
    exec(compile(CHECK, "check.py", "exec"), namespace)
    wrong, two = namespace["wrong"], namespace["two"]
    assert assert_refines(two()).status == "refines"  # type: ignore[operator]
    with pytest.raises(NotRefined, match="SP111") as caught:
        assert_refines(wrong(2))  # type: ignore[operator]
    assert caught.value.verdict.status == "refuted"


def test_two_checks_of_one_test_have_two_reports(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_mine="""
        from check import check, two
        from shardproof.pytest_plugin import assert_refines

        def test_both():
            assert_refines(two())
            assert_refines(check(4))
        """
    )
    run(suite, "--shardproof-report", "r").assert_outcomes(passed=1)
    found = sorted(p.parent.name for p in (suite.path / "r").rglob("report.json"))
    assert found == ["test_mine.py_test_both", "test_mine.py_test_both_2"]


def test_results_are_in_junit_files(suite: pytest.Pytester) -> None:
    run(suite, "--junit-xml", "j.xml", "-k", "wrong")
    text = (suite.path / "j.xml").read_text()
    assert 'property name="shardproof"' in text
    assert json.loads(json.dumps(text)).count("refuted") >= 2
