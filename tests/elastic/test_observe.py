"""Event log, timeline, summary, live table, figures and the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from shardproof.cli.app import main
from shardproof.elastic import cli
from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.events import Event, EventLog, read_events, write_events
from shardproof.elastic.monitor import follow, summary_table
from shardproof.elastic.policies import make_policy
from shardproof.elastic.simulate import Cluster, Result, simulate
from shardproof.elastic.summary import summarise
from shardproof.elastic.timeline import to_chrome_trace


@pytest.fixture
def result() -> Result:
    return simulate(
        make_policy("elastic", 4),
        Cluster(3, jitter=0.1).times(0),
        seconds=40,
        barrier_cost=0.1,
        record=True,
    )


def test_log_round_trip(tmp_path: Path, result: Result) -> None:
    write_events(tmp_path / "events-a.jsonl", result.events)
    assert sorted(map(repr, read_events(tmp_path))) == sorted(map(repr, result.events))


def test_log_of_a_killed_process_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "events-0.jsonl"
    log = EventLog(path)
    log.write(Event("iteration", 0, 1.0, 2.0))
    log.close()
    whole = path.read_text()
    path.write_text(whole + whole[:20])
    assert len(read_events(tmp_path)) == 1
    path.write_text(whole[:20] + "\n" + whole)
    with pytest.raises(InvalidInput, match=r"events-0.jsonl:1: not an event"):
        read_events(path)
    with pytest.raises(InvalidInput, match="no event log"):
        read_events(tmp_path / "nowhere")


def test_summary_equals_the_simulation(result: Result) -> None:
    summary = summarise(sorted(result.events, key=lambda e: e.start))
    assert summary.iterations == sum(result.iterations.values())
    for worker, seconds in result.waiting.items():
        # The log lacks only the wait that the end of the simulation cut off.
        assert summary.workers[worker].waiting <= seconds + 1e-9
    lengths = [s.end - s.start for s in result.supersteps]
    assert list(summary.lengths.values())[: len(lengths)] == pytest.approx(lengths)


def test_timeline_is_a_chrome_trace(result: Result) -> None:
    trace = json.loads(json.dumps(to_chrome_trace(result.events)))["traceEvents"]
    slices = [e for e in trace if e["ph"] == "X"]
    assert len(slices) == sum(e.kind not in {"join", "leave", "plan"} for e in result.events)
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in slices)
    starts = {e["id"] for e in trace if e["ph"] == "s"}
    assert starts == {e["id"] for e in trace if e["ph"] == "f"}
    assert starts
    names = {e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    assert names == {"worker 0", "worker 1", "worker 2"}


def test_table_and_live_view(tmp_path: Path, result: Result) -> None:
    summary = summarise(result.events)
    summary.next_barrier = 42.0
    console = Console(file=io.StringIO(), width=120)
    console.print(summary_table(summary, now=40.0))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "next barrier in 2.00 s" in text
    assert str(result.iterations[2]) in text
    write_events(tmp_path / "events-a.jsonl", result.events)
    live = Console(file=io.StringIO(), width=120)
    follow(tmp_path, live, every=0.0, until=lambda: True)
    assert f"{summary.iterations} iterations" in live.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
def test_figures(tmp_path: Path, result: Result) -> None:
    pytest.importorskip("matplotlib")
    from shardproof.elastic.figures import accuracy_curves, policy_panels, run_figure

    run_figure(result.events, tmp_path / "run.png")
    rows = [{**result.summary(), "workers": n} for n in (4, 16)]
    policy_panels(rows, tmp_path / "panels.png")
    accuracy_curves({"bsp": [[(0.0, 0, 0.1), (1.0, 10, 0.5)]]}, tmp_path / "curves.png")
    for name in ("run", "panels", "curves"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def call(*arguments: str) -> None:
    cli.app(list(arguments), result_action="return_value")


def test_cli_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    call("plan", "--interval", "2", "--interval", "3", "--staleness", "6", "--json")
    assert json.loads(capsys.readouterr().out)["counts"] == [3, 2]
    trace = tmp_path / "t.csv"
    trace.write_text("worker,seconds\n0,2\n0,2\n1,3\n")
    call("plan", "--trace", str(trace))
    assert "worker 0: 3 iterations, arrives at 6 s" in capsys.readouterr().out


def test_cli_simulate_and_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    timeline = tmp_path / "t.json"
    call(
        "simulate",
        "--policy",
        "bsp",
        "--policy",
        "elastic",
        "--workers",
        "3",
        "--seconds",
        "60",
        "--what-if",
        "--timeline",
        str(timeline),
        "--json",
    )
    found = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in found["results"]] == ["bsp", "elastic"]
    assert found["what_if"]["by_cause"]["all variation in time"] > 0
    assert json.loads(timeline.read_text())["traceEvents"]
    write_events(tmp_path / "events-x.jsonl", [Event("iteration", 0, 0.0, 2.0)])
    call("report", str(tmp_path), "--json")
    assert json.loads(capsys.readouterr().out)["iterations"] == 1


def test_cli_errors_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elastic", "report", "/nowhere/at/all"]) == 2
    assert "error: no event log" in capsys.readouterr().err


def test_command_line_imports_nothing_heavy() -> None:
    code = (
        "import sys, shardproof.elastic.cli, shardproof.elastic;"
        "print([m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules])"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PATH": ""}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert out.stdout.strip() == "[]"
