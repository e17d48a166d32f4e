"""`debug.trace_report`, `debug.no_retrace` and `python -m mjax trace`."""

from __future__ import annotations

import dis
import functools
import gc
import json
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import mjax
import mjax.numpy as jnp
from benchmarks import reports
from mjax._engine.runtime.dispatch.spans import guards, recorders
from mjax._tools.commands import main

ROOT = Path(__file__).parents[2]


def _function():
    @mjax.jit
    def inner(x):
        return jnp.sin(x) * 2

    def outer(x, n=1, **more):
        return inner(x) + n

    return mjax.jit(outer, static_argnames="n")


def _row(report, name):
    (row,) = [row for row in report.rows if row.function == name]
    return row


def test_counts_and_equations():
    f = _function()
    with mjax.debug.trace_report() as report:
        f(jnp.ones(3))
        f(jnp.ones(3))
    assert re.fullmatch(r"<TraceReport: 2 traces, 1 compilation, \d.\d{3} s>", repr(report))
    outer, inner = _row(report, "outer"), _row(report, "inner")
    assert (outer.traces, outer.compilations, outer.reasons) == (1, 1, ())
    assert (inner.traces, inner.compilations) == (1, 0)
    jaxpr = mjax.make_jaxpr(f)(jnp.ones(3))
    (call,) = jaxpr.eqns
    assert inner.equations == 2 and outer.equations == 4 == 2 + len(call.params["jaxpr"].eqns)
    assert Path(__file__).name in outer.site and "(test_counts_and_equations)" in outer.site
    assert inner.site.endswith("outer)")  # of the call inside


@pytest.mark.parametrize("again, reasons", [
    (lambda f: f(jnp.ones(4)), ["argument x: now float32[4], before float32[3] (shape)"]),
    (lambda f: f(jnp.ones(3, int)), ["argument x: now int32[3], before float32[3] (dtype)"]),
    (lambda f: f(jnp.ones(3), n=2), ["static argument 'n': now 2, before 1"]),
    (lambda f: f((jnp.ones(3), 1.0)[0], m=1.0), ["structure of (args, kwargs): now"])])
def test_reasons(again, reasons):
    f = _function()
    f(jnp.ones(3), n=1)
    with mjax.debug.trace_report() as report:
        again(f)
    (found,) = _row(report, "outer").reasons
    assert all(reason in found for reason in reasons), found
    assert f"again: {found}" in str(report)


def test_a_setting_is_a_reason():
    f = _function()
    f(jnp.ones(3))
    with mjax.debug.trace_report() as report, mjax.numpy_rank_promotion("raise"):
        f(jnp.ones(3))
    assert _row(report, "outer").reasons == (
        "setting numpy_rank_promotion: now 'raise', before 'allow'",)


def test_a_device_is_a_reason():
    f = mjax.jit(lambda x: x + 1)
    f(jnp.ones(3))
    moved = mjax.device_put(jnp.ones(3), mjax.devices()[1])
    with mjax.debug.trace_report() as report:
        f(moved)
    (row,) = report.rows
    assert (row.traces, row.compilations) == (0, 1)
    head, line, *_ = str(report).splitlines()
    assert head.split()[:3] == ["function", "traces", "compilations"]
    assert line.split()[:3] == ["<lambda>", "0", "1"]
    assert "argument x: now committed to" in row.reasons[0]


def test_single_operations_have_their_own_reasons():
    f = _function()
    f(jnp.ones(3))
    x, y = jnp.ones((7, 3, 1)), jnp.ones((7, 3, 1))
    with mjax.debug.trace_report() as report:
        f(jnp.ones(9))
        jnp.hypot(x, y)
    assert _row(report, "hypot").reasons == ()


def test_seconds_are_counted_once():
    """Those of an inner trace are not those of the outer one; the sum is the time that passed."""
    @mjax.jit
    def inner(x):
        time.sleep(0.2)
        return x

    @mjax.jit
    def outer(x):
        time.sleep(0.1)
        return inner(x)

    with mjax.debug.trace_report() as report:
        outer(1.0)
    assert _row(report, "inner").seconds["trace"] >= 0.2
    assert 0.1 <= _row(report, "outer").seconds["trace"] < report.wall - 0.2
    assert sum(sum(row.seconds.values()) for row in report.rows) <= report.wall


@pytest.mark.slow
def test_sums_agree_with_the_time_that_passed():
    @mjax.jit
    def f(x):
        for _ in range(300):
            x = jnp.sin(x) * x + jnp.tanh(x @ x)
        return x

    x = jnp.ones((4, 4)).block_until_ready()
    with mjax.debug.trace_report() as report:
        f(x)
    assert sum(sum(row.seconds.values()) for row in report.rows) > 0.9 * report.wall


def test_failed_traces_end_their_spans():
    @mjax.jit
    def bad(x):
        raise KeyError("no")

    with mjax.debug.trace_report() as report:
        with pytest.raises(KeyError):
            bad(1.0)
        _function()(1.0)
    assert _row(report, "bad").traces == 1 and _row(report, "outer").compilations == 1


def test_functions_that_are_defined_anew_say_so():
    with mjax.debug.trace_report() as report:
        for n in range(3):
            mjax.jit(lambda x, n=n: x * n)(2.0)
        mjax.jit(jnp.sin)(2.0), mjax.jit(mjax.grad(jnp.sin))(2.0)
    anew, others = _row(report, "<lambda>"), [r for r in report.rows if r.function != "<lambda>"]
    assert anew.traces == 3 and len(anew.reasons) == 2
    assert all("defined or decorated anew for each call" in reason for reason in anew.reasons)
    assert others and not any(row.reasons for row in others)


def test_a_trace_that_was_not_kept_is_a_reason():
    f = _function()
    with mjax.debug.trace_report() as report:
        for _ in range(2):
            mjax.clear_caches()
            f(jnp.ones(3))
        assert _row(report, "outer").traces == 2  # before it ends, too
        assert 0 < sum(_row(report, "outer").seconds.values()) < report.wall
    (reason,) = _row(report, "outer").reasons
    assert reason.startswith("no argument, static value or setting: its last trace was not kept")


def test_the_closest_of_earlier_calls_is_compared():
    f = _function()
    f(jnp.ones(3, int))
    with mjax.debug.trace_report() as report:
        for x, kwargs in ((jnp.ones((2, 2)), {}), (jnp.ones((2, 2), int), {"n": 5}),
                          (jnp.ones(3), {}), (jnp.ones((2, 2), bool), {"n": 5})):
            f(x, **kwargs)
    assert _row(report, "outer").reasons == (
        "argument x: now float32[2,2], before int32[3] (shape, dtype)",
        "static argument 'n': now 5, before not given; "
        "argument x: now int32[2,2], before float32[2,2] (dtype)",
        "argument x: now float32[3], before float32[2,2] (shape)",
        "argument x: now bool[2,2], before int32[2,2] (dtype)")


def test_a_report_that_has_ended_keeps_nothing_alive():
    """While it records, it refers to functions and jaxprs; then to texts and numbers."""
    f = _function()
    with mjax.debug.trace_report() as report:
        f(jnp.ones(3))
    function = weakref.ref(f)
    del f
    gc.collect()
    assert function() is None
    assert _row(report, "outer").equations == 4


def test_recording_runs_hardly_more_bytecodes():
    """At most 3 percent more, and nothing without a report; see `benchmarks/reports.py`."""
    for name, call in reports.programs().items():
        off, on = reports.both(call)
        assert off < on <= (1 + reports.GOAL) * off, (name, off, on)


def test_files(tmp_path):
    f = _function()
    with mjax.debug.trace_report() as report:
        f(jnp.ones(3))
    report.save(tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text())
    assert [row["function"] for row in data["rows"]] == [row.function for row in report.rows]
    assert {span["phase"] for span in data["spans"]} == {"trace", "lower", "compile"}
    report.save(tmp_path / "b.json", "perfetto")
    events = json.loads((tmp_path / "b.json").read_text())["traceEvents"]
    assert len(events) == len(data["spans"]) and all(event["ph"] == "X" for event in events)
    by_name = {(event["name"], event["cat"]): event for event in events}
    outer, inner = by_name["outer", "trace"], by_name["inner", "trace"]
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    report.save(tmp_path / "c.txt", "table")
    assert (tmp_path / "c.txt").read_text() == str(report)
    with pytest.raises(ValueError, match="has the forms json, perfetto, table; got 'xml'"):
        report.save(tmp_path / "d", "xml")


def test_other_threads_are_recorded_apart():
    f, g = _function(), mjax.jit(lambda x: x - 1)
    with mjax.debug.trace_report() as report:
        thread = threading.Thread(target=lambda: g(1.0))
        thread.start()
        f(1.0)
        thread.join()
    events = json.loads(report.perfetto())["traceEvents"]
    assert {event["tid"] for event in events} == {1, 2}  # Perfetto takes numbers of 32 bits
    assert {row.function for row in report.rows} >= {"outer", "<lambda>"}
    assert len({span["thread"] for span in json.loads(report.json())["spans"]}) == 2


def test_spans_that_began_before_the_report():
    def traced(x):
        begun.set()
        wait.wait(30)
        return x * 2

    begun, wait = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: mjax.jit(traced)(1.0))
    thread.start()
    begun.wait(30)
    with mjax.debug.trace_report() as report:
        wait.set()
        thread.join()
    events = json.loads(report.perfetto())["traceEvents"]
    assert {event["cat"] for event in events} == {"trace", "lower", "compile"}
    assert min(event["ts"] for event in events) == 0


def test_reports_nest_and_end():
    f = _function()
    with mjax.debug.trace_report() as whole:
        f(jnp.ones(2))
        with mjax.debug.trace_report() as part:
            f(jnp.ones(3))
    f(jnp.ones(4))
    rows = [row.traces for row in whole.rows if row.function == "outer"]
    assert rows == [1, 1] and _row(part, "outer").traces == 1  # of two lines
    assert recorders == guards == []


def test_calls_run_the_same_code_whether_it_is_on_or_off():
    """No bytecode of a call of a compiled program belongs to reports: they cost nothing."""
    f = _function()
    x = jnp.ones(3)
    f(x)

    def ran():
        lines = []

        def follow(frame, event, arg):
            frame.f_trace_opcodes = True
            if event == "opcode":
                lines.append((frame.f_code, frame.f_lasti))
            return follow

        sys.settrace(follow)
        try:
            f(x)
        finally:
            sys.settrace(None)
        return lines

    ran()
    off = ran()
    with mjax.debug.trace_report():
        on = ran()
    assert off == on
    assert not [code for code, _ in off if "spans" in code.co_filename]
    assert all(any(i.offset == at for i in dis.get_instructions(code)) for code, at in off[:5])


# ---------------------------------------------------------------------------- no_retrace


def test_first_traces_are_allowed():
    f = _function()
    with mjax.debug.no_retrace():
        f(jnp.ones(3))
        f(jnp.zeros(3))
        jnp.linspace(0, 1, 3), jnp.linspace(0, 1, 4)  # the library's own


@pytest.mark.parametrize("before", [True, False])
def test_second_traces_are_refused(before):
    f = _function()
    if before:
        f(jnp.ones(3))
    with mjax.debug.no_retrace():
        f(jnp.ones(3))
        with pytest.raises(RuntimeError, match="no_retrace: outer would be traced again") as caught:
            f(jnp.ones(5))
    assert "argument x: now float32[5], before float32[3] (shape)" in str(caught.value)
    assert "test_trace_report.py" in str(caught.value)
    f(jnp.ones(5))


def test_functions_defined_anew_are_refused():
    with mjax.debug.no_retrace(), pytest.raises(RuntimeError, match="defined or decorated anew"):
        for _ in range(2):
            mjax.jit(lambda x: x + 1)(1.0)


def test_functions_of_other_code_are_others():
    def loss(x):
        return jnp.sum(x * x)

    x = jnp.ones((2, 3))
    with mjax.debug.no_retrace():
        for f in (loss, mjax.grad(loss), mjax.vmap(loss), mjax.vmap(loss, in_axes=1),
                  mjax.vmap(mjax.grad(loss)), mjax.value_and_grad(loss)):
            mjax.jit(f)(x)
        mjax.jit(lambda x: x + 1)(x), mjax.jit(lambda x: x + 1)(x)
        for axis in (0, 1):
            mjax.jit(functools.partial(jnp.sum, axis=axis))(x)
        with pytest.raises(RuntimeError, match="defined or decorated anew"):
            for _ in range(2):
                mjax.jit(functools.partial(lambda x, y: x + y, y=x))(x)
        with pytest.raises(RuntimeError, match="defined or decorated anew"):
            for step in range(2):
                mjax.jit(mjax.grad(lambda x, step=step: jnp.sum(x) * step))(x)


def test_functions_that_wrap_themselves():
    def f(x):
        return x

    f.__wrapped__ = f
    with mjax.debug.no_retrace(), pytest.raises(ValueError, match="wrapper loop"):  # inspect's
        mjax.jit(f)(1.0)


def test_other_threads_may_trace():
    f, done = _function(), []
    f(1.0)
    with mjax.debug.no_retrace():
        thread = threading.Thread(target=lambda: done.append(f(jnp.ones(3))))
        thread.start()
        thread.join()
    assert len(done) == 1


# ---------------------------------------------------------------------------- the command

SCRIPT = """
import sys
import helper
import mjax
f = mjax.jit(helper.double)
f(1.0), f(1)
print(sys.argv[1:], __name__)
sys.exit(int(sys.argv[2]))
"""


def _command(*arguments, options=("-m",), path=ROOT):
    return subprocess.run(
        [sys.executable, *options, "mjax", "trace", *arguments],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))})


def test_the_command(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("def double(x):\n    return x * 2\n")
    done = _command("--json", tmp_path / "r.json", "--perfetto", tmp_path / "p.json",
                    tmp_path / "script.py", "--x", "3")
    assert done.returncode == 3, done.stderr
    assert done.stdout == "['--x', '3'] __main__\n"
    assert "again: argument x: now ~int32[], before ~float32[] (dtype)" in done.stderr
    data = json.loads((tmp_path / "r.json").read_text())
    (row,) = [row for row in data["rows"] if row["function"] == "double"]
    assert row["traces"] == 2 and row["site"].endswith("script.py:6 (<module>)")
    assert json.loads((tmp_path / "p.json").read_text())["traceEvents"]


@pytest.mark.parametrize("options", [("-m",), ("-P", "-m")])
def test_the_command_runs_modules(tmp_path, options):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "helper.py").write_text("def double(x):\n    return x * 2\n")
    (tmp_path / "package" / "__init__.py").write_text(
        "import mjax\nmjax.jit(lambda x: x * 5)(1.0)\n")
    (tmp_path / "package" / "__main__.py").write_text(
        SCRIPT.replace("import helper", "from . import helper"))
    done = _command("-m", "package", "-m", "3", options=options, path=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "['-m', '3'] __main__\n"
    assert f"{tmp_path / 'package' / '__main__.py'}:6 (<module>)" in done.stderr
    assert f"{tmp_path / 'package' / '__init__.py'}:2 (<module>)" in done.stderr


def test_the_command_keeps_paths_safe(tmp_path):
    """`python -P` does not put the folder of the script in front, nor in place of another."""
    (tmp_path / "script.py").write_text("import sys\nprint(sys.path)\n")
    done = _command(tmp_path / "script.py", options=("-P", "-m"), path=tmp_path / "other")
    assert str(tmp_path / "other") in done.stdout and f"'{tmp_path}'" not in done.stdout


def test_a_program_that_fails_has_a_report(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import mjax\nmjax.jit(lambda x: x * 2)(1.0)\nraise KeyError('its own')\n")
    done = _command("--json", tmp_path / "r.json", script)
    assert done.returncode == 1 and "KeyError: 'its own'" in done.stderr
    assert "fails.py:2 (<module>)" in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["rows"][0]["traces"] == 1


@pytest.mark.parametrize("arguments, message", [
    ((), "required: program\n"),
    (("-m",), "required: program\n"),
    (("-m", "absent.part"), "there is no module 'absent.part'"),
    (("-m", ""), "there is no module ''"),
    (("-m", "json.absent"), "there is no module 'json.absent'"),
    (("-m", "mjax.numpy"), "there is no module 'mjax.numpy' that can be run"),
    (("absent.py",), "there is no file 'absent.py'"),
    (("--json", "absent/r.json", __file__), "--json absent/r.json: there is no folder"),
])
def test_wrong_commands(capsys, arguments, message):
    with pytest.raises(SystemExit):
        main(["trace", *arguments])
    assert message in capsys.readouterr().err
