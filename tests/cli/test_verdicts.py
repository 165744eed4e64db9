"""The packaged examples end to end: the verdicts that the README promises."""

from __future__ import annotations

from tests.cli.test_cli import run
from tests.spec import programs

from shardproof import Spec
from shardproof.examples import grad_accumulation, layernorm_gradient, megatron_gpt
from shardproof.report import text
from shardproof.report.diagnostic import Verdict


def failing(verdict: Verdict) -> set[str]:
    return {o.seq_output for o in verdict.outputs if o.status != "proved"}


def test_gpt_refines() -> None:
    for make in (megatron_gpt.tp2_layers2, megatron_gpt.tp8_layers8):
        verdict = make().check()
        assert verdict.status == "refines"
        assert not verdict.unknown_operators
        assert [o.seq_output for o in verdict.outputs] == ["div_2"]


def test_gradient_accumulation_is_twice_too_large() -> None:
    verdict = grad_accumulation.accumulate().check()
    assert verdict.status == "refuted"
    (finding,) = verdict.findings
    assert finding.code == "SP111"
    assert finding.counterexample is not None
    assert "twice" in finding.message


def test_layernorm_gradient_in_three_declarations() -> None:
    assert layernorm_gradient.reduced_later().check().status == "refines"
    forgotten = layernorm_gradient.one_forgotten().check()
    assert forgotten.status == "refuted"
    assert [f.code for f in forgotten.findings] == ["SP121"]
    assert failing(forgotten) == {"add_13"}
    replicated = layernorm_gradient.declared_replicated().check()
    assert replicated.status == "refuted"
    assert [f.code for f in replicated.findings] == ["SP121"]
    assert len(failing(replicated)) == 10
    assert set(replicated.findings[0].affected) == failing(replicated)


def test_a_program_for_all_numbers_of_ranks() -> None:
    from shardproof import Replicate, Shard

    inputs = {"x": Replicate(), "w1": Shard(1), "w2": Shard(0)}
    good = Spec.from_graphs(
        sequential=programs.SYMBOLIC_SEQUENTIAL, distributed=programs.SPMD, inputs=inputs
    ).check()
    assert good.status == "refines"
    assert good.conditions
    broken = programs.SPMD.replace('all_reduce(%p) {op="sum", group=("tp",)}', "neg(%p)")
    assert (
        Spec.from_graphs(sequential=programs.SYMBOLIC_SEQUENTIAL, distributed=broken, inputs=inputs)
        .check()
        .status
        == "refuted"
    )


def test_demo() -> None:
    done = run("demo")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\nrefines (certificate checked)\n" in done.stdout
    assert "\nrefuted\n" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_reports_of_examples_fit_80_columns_but_for_long_paths() -> None:
    found = text.plain(layernorm_gradient.one_forgotten().check())
    assert all(len(line) <= 80 or "/" in line for line in found.splitlines())
