"""`explain` lists what is missing or refused, before anything runs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import mjax
import mjax_ext
from mjax import lax
from mjax_ext import core
from mjax_ext.__main__ import main
from mjax_ext.interpreters import ad, mlir

X = np.ones(3, np.float32)


def half():
    p = core.Primitive("half")
    p.def_impl(lambda x: pytest.fail("it ran"))
    p.def_abstract_eval(lambda x: x)
    return p


def found(*args, **kwargs):
    report = mjax_ext.explain(*args, **kwargs)
    assert not report.ended, report.ended
    assert report.ok is (not report.findings)
    return [(f.primitive, f.rule, f.detail) for f in report.findings]


def test_it_is_a_function():
    import mjax_ext._explain

    assert callable(mjax_ext.explain) and mjax_ext.explain.__module__ == "mjax_ext"


def test_nothing_is_missing():
    names = ("jvp", "linearize", "grad", "vmap", "jit", "checkpoint", "scan")
    report = mjax_ext.explain(lambda x, i: lax.sin(x) * i, X, 2, transforms=names,
                              platforms=("cpu", "tpu", "cuda"))
    assert report.ok and str(report) == "Nothing is missing."


@pytest.mark.parametrize(("transforms", "rules"), [
    ((), ["lowering"]), (("jvp",), ["jvp", "lowering"]), (("grad",), ["jvp", "lowering"]),
    (("vmap",), ["batch"]), (("vmap", "grad"), ["batch"]), (("grad", "vmap"), ["jvp", "batch"]),
    (("checkpoint", "grad"), ["jvp", "lowering"]), (("scan", "vmap"), ["batch"])])
def test_each_transformation(transforms, rules):
    assert found(half().bind, X, transforms=transforms) == [
        ("half", rule, "cpu" if rule == "lowering" else "") for rule in rules]


def test_lines_and_texts():
    p = half()
    finding, = mjax_ext.explain(lambda x: p.bind(x), X, transforms=["vmap"]).findings
    assert "test_explain.py:" in finding.where and "(test_lines_and_texts" in finding.where
    assert "batching.primitive_batchers[half_p] = half_batch" in finding.text
    assert "no batching rule, which vectorization (vmap) needs. At " in str(finding)


def test_bodies_and_transformations_inside():
    p = half()

    def f(x):
        def step(c, y):
            return lax.cond(c.sum() > 0, lambda: p.bind(c), lambda: c), mjax.jit(p.bind)(y)
        return lax.scan(step, x, np.ones((2, 3), np.float32))

    assert found(f, X) == [("half", "lowering", "cpu")] * 2
    gradient = mjax.jit(mjax.grad(lambda x: f(x)[0].sum()))
    assert ("half", "jvp", "") in found(gradient, X)
    assert found(lambda x: f(x)[0], X, transforms=["grad"])[0] == ("half", "jvp", "")


def test_platforms():
    p = half()
    mlir.register_lowering(p, lambda ctx, x: [x], platform="cpu")
    assert found(p.bind, X, platforms=("cpu",)) == []
    assert found(p.bind, X, platforms=("cpu", "tpu")) == [
        ("half", "lowering", "tpu (only for cpu)")]
    assert found(p.bind, X, platforms=()) == []


def test_a_rule_that_applies_what_cannot_be_transposed():
    p = half()
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    assert found(p.bind, X, transforms=["grad"]) == [
        ("half", "transpose", ""), ("half", "lowering", "cpu")]


class Strict(core.Effect):
    policy = core.EffectPolicy(control_flow=False, differentiable=False, batchable=False,
                               lowerable=False)


def test_effects():
    p = core.Primitive("loud")
    p.def_effectful_abstract_eval(lambda x: (x, {Strict()}))
    report = mjax_ext.explain(lambda x: lax.scan(lambda c, _: (p.bind(c), None), x, None, 2)[0], X,
                              transforms=("vmap",))
    said = [f.text for f in report.findings if f.rule == "effects"]
    assert any("control_flow=False" in text for text in said)
    assert any("batchable=False" in text for text in said)
    assert all("test_explain.py:" in text for text in said)


def test_without_types_it_ends():
    report = mjax_ext.explain(core.Primitive("typeless").bind, X)
    assert [f.rule for f in report.findings] == ["abstract_eval"]
    assert "types of later results are not known" in report.ended and not report.ok


def test_errors_end_it():
    report = mjax_ext.explain(lambda x: 1 / 0, X)
    assert report.ended.startswith("division by zero") and not report.findings and not report.ok


def test_the_note_about_tracebacks_is_left_out():
    report = mjax_ext.explain(lambda x: lax.sin("x"), X)
    assert "not a valid array" in report.ended and "traceback" not in report.ended


def test_nothing_stays_in_caches():
    p = half()
    f = mjax.jit(lambda x: mjax.vmap(p.bind)(x))
    assert found(f, X) == [("half", "batch", "")]
    with pytest.raises(mjax.errors.MissingRuleError, match="no batching rule"):
        f(X)
    assert found(f, X) == [("half", "batch", "")]


def test_unknown_names():
    with pytest.raises(ValueError, match="unknown transformation 'gard'"):
        mjax_ext.explain(lax.sin, X, transforms=["gard"])
    with pytest.raises(ValueError, match="unknown platform 'gpu0'"):
        mjax_ext.explain(lax.sin, X, platforms=["gpu0"])
    with pytest.raises(TypeError, match="explain expects a function, got 3"):
        mjax_ext.explain(3, X)
    for name, several in (("transforms", "grad"), ("platforms", "cpu")):
        text = rf"{name} is a list of names, such as \['{several}'\], not '{several}'"
        with pytest.raises(TypeError, match=text):
            mjax_ext.explain(lax.sin, X, **{name: several})


def test_the_command(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from mjax_ext import core\nhalf_p = core.Primitive('half')\n"
        "half_p.def_abstract_eval(lambda x: x)\nf = lambda x: half_p.bind(x)\n"
        "args = lambda: (1.0,)\n")
    run = lambda *args: subprocess.run([sys.executable, "-m", "mjax_ext", *args], cwd=tmp_path,
                                       capture_output=True, text=True, check=False)
    done = run("explain", "mine:f", "--args", "mine:args", "--transforms", "vmap")
    assert done.returncode == 1, done.stderr
    assert "Primitive 'half' has no batching rule" in done.stdout and "mine.py:4" in done.stdout
    assert run("explains").returncode == 2


@pytest.mark.parametrize(("arguments", "text"), [
    (["no_such_module:f"], "no_such_module:f is not there: ModuleNotFoundError"),
    ([f"{__name__}:g"], f"{__name__}:g is not there: AttributeError"),
    (["f"], "'f' must have the form module:name"),
    (["mjax.lax:sin", "--args", "mjax.lax:pi"], "mjax.lax:pi is not there"),
    (["mjax.lax:sin", "--args", f"{__name__}:X"], "which is not a function"),
    (["mjax.lax:sin", "--args", "mjax:default_backend"], "must return the arguments of mjax.lax:s"),
    (["mjax.lax:sin", "--transforms", "grads"], "unknown transformation 'grads'")])
def test_bad_arguments_of_the_command(arguments, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explain", *arguments])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: python -m mjax_ext explain") and text in said
