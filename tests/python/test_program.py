"""Programs and traces: compile, look, prove, simulate, report, picture."""

from pathlib import Path

import pytest

from serval import LLM, Error, SamplingParams, Trace, compile, read_program, read_trace


def test_a_program_has_records_waits_and_signals() -> None:
    program = compile("llama-3.2-1b", sms=132)
    records = program.records()
    assert len(records) == len(program) and program.sms == 132
    assert {"lm_head", "sample", "attention", "gate_up_silu"} <= {record["op"] for record in records}
    signalled = {counter for record in records for counter, _ in record["signals"]}
    assert all(counter in signalled for record in records for counter, _ in record["waits"])
    assert "132 SMs" in repr(program)


def test_a_program_is_proven_and_saved(tmp_path: Path) -> None:
    program = compile(machine="host", threads=2)
    assert program.validate() is None
    program.save(tmp_path / "a.program")
    again = read_program(tmp_path / "a.program")
    assert again.disassemble() == program.disassemble()
    violation = again.validate("llama-3.2-1b")
    assert violation is not None and violation.rule == "model"
    (tmp_path / "b.program").write_bytes(b"nothing")
    with pytest.raises(Error, match="b.program"):
        read_program(tmp_path / "b.program")


def test_a_program_of_8_bit_weights_is_of_that_model_only() -> None:
    program = compile(machine="host", threads=2, weights="fp8", lm_head="fp8")
    assert program.validate("", weights="fp8", lm_head="fp8") is None
    violation = program.validate("")
    assert violation is not None and violation.rule == "model"


def test_pandas_shows_records_where_it_is_installed() -> None:
    pandas = pytest.importorskip("pandas")
    program = compile(machine="host", threads=2)
    table = program.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == len(program)


def test_statistics_and_wrong_arguments() -> None:
    statistics = compile("llama-3.2-1b").statistics(cached_tokens=1024)
    assert statistics["instructions"] > 1000 and statistics["makespan_us"] > 100
    with pytest.raises(Error, match="machine: 'h300'; expected h200 or host"):
        compile(machine="h300")
    with pytest.raises(Error, match="rows: 0"):
        compile(rows=0)


def test_simulated_traces_report_and_compare(tmp_path: Path) -> None:
    program = compile("llama-3.2-1b")
    trace, faster = program.simulate(), program.simulate(what_if=["gb_per_s=9000"])
    assert trace.source == "sim" and trace.tokens == 1
    before, after = trace.figures()["median_token_ns"], faster.figures()["median_token_ns"]
    assert 100_000 < after < before
    assert "token" in trace.report() and "token" in trace.diff(faster)
    trace.save(tmp_path / "t.json.gz")
    assert read_trace(tmp_path / "t.json.gz").report() == trace.report()


def test_a_notebook_shows_the_gantt_chart(tmp_path: Path) -> None:
    trace = compile("llama-3.2-1b").simulate()
    assert trace._repr_html_().startswith("<iframe")
    trace.save(tmp_path / "t.html")
    assert (tmp_path / "t.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


def test_a_model_profiles_its_own_tokens() -> None:
    with LLM(backend="host", context=128, trace_tokens=4) as llm:
        llm.generate("Once upon a time", SamplingParams(max_tokens=8, ignore_eos=True))
        trace = llm.profile(2)
    assert isinstance(trace, Trace) and trace.source == "host" and trace.tokens == 2


def test_profiling_needs_kept_tokens(llm: LLM) -> None:
    with pytest.raises(Error, match="trace_tokens"):
        llm.profile()
