"""compute_on and set_xla_metadata: requests to XLA, in the attributes of operations."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental.compute_on import compute_on
from mjax.experimental.xla_metadata import set_xla_metadata
from mjax_ext import core
from mjax_ext.interpreters import mlir
from mjax_ext.interpreters import partial_eval as pe
from tests.engine.primitives.harness import Case, table

X = np.arange(3, dtype="float32")


def valued(x):
    return set_xla_metadata(jnp.asarray(x), a=1)


CASES = [Case("xla_metadata_value", valued, np.copy, "T[3]; T[]; T[0,2]",
              T="f32 bf16 c64 i32 u8 bool", linear=[(0,)])]


@table(CASES)
def test_rules(check, sample):
    check(sample)


def noted(f, *args, platforms=None):
    """Operation -> its attributes, of those that have some in a lowered program."""
    traced = mjax.jit(f).trace(*args)
    lowered = traced.lower() if platforms is None else traced.lower(lowering_platforms=platforms)
    found = re.findall(r'= "?(?:\w+\.)?(\w+).*frontend_attributes = \{(.*?)\}',
                       lowered.as_text())
    return sorted((op, *sorted(attributes.split(", "))) for op, attributes in found)


HOST = '_xla_compute_type = "host"'


def test_operations_in_the_body():
    def f(x):
        with compute_on("device_host"):
            x = lax.sin(x)
        with set_xla_metadata(a=1, b=True, c="d"):
            x = lax.cos(x)
            with compute_on("device"), set_xla_metadata(a=None, b=False):
                x = lax.tan(x)
        return lax.exp(x)

    assert noted(f, X) == [
        ("cosine", 'a = "1"', 'b = "true"', 'c = "d"'), ("sine", HOST),
        ("tan", '_xla_compute_type = "dense"', 'b = "false"', 'c = "d"')]
    np.testing.assert_allclose(mjax.jit(f)(X), np.exp(np.tan(np.cos(np.sin(X)))), 1e-5)


def test_streams_and_decorators():
    f = compute_on("gpu_stream:2")(lambda x: lax.sin(x))
    assert noted(f, X) == [("sine", '_xla_stream_annotation = "2"', 'inlineable = "false"')]
    g = set_xla_metadata(a=1)(mjax.jit(lax.sin))
    assert '{a = "1"}' in g.lower(X).as_text() and "frontend" not in mjax.jit(lax.sin).lower(
        X).as_text()
    np.testing.assert_allclose(g(X), np.sin(X), 1e-6)
    assert set_xla_metadata()(lax.sin).__name__ == "sin"


def test_transformations_keep_them_and_programs_inside_have_them():
    inner = mjax.jit(lambda x: lax.sin(x))

    def f(x):
        with set_xla_metadata(a=1):
            return lax.mul(inner(x), 3.0)

    assert noted(f, 1.0) == [("call", 'a = "1"'), ("multiply", 'a = "1"'), ("sine", 'a = "1"')]
    assert noted(inner, 1.0) == []
    kinds = {op for op, *_ in noted(mjax.vmap(mjax.grad(f)), X)}
    assert {"multiply", "cosine", "call"} <= kinds
    carried = lambda x: lax.fori_loop(0, 3, lambda i, y: f(y), x)
    assert ("sine", 'a = "1"') in noted(carried, 1.0)
    assert ("multiply", 'a = "1"') in noted(mjax.grad(mjax.checkpoint(f)), 1.0)


def test_equations_are_applied_again_with_their_requests():
    def f(x):
        with compute_on("device_host"), set_xla_metadata(a=1):
            return lax.sin(x)

    jaxpr = mjax.make_jaxpr(f)(1.0)
    (eqn,) = jaxpr.eqns
    assert (eqn.ctx.compute_type, eqn.ctx.xla_metadata) == ("device_host", {"a": 1})
    assert eqn.ctx == core.JaxprEqnContext("device_host", True, {"a": 1}) != core.JaxprEqnContext()

    def again(x):
        with eqn.ctx.manager:
            return lax.cos(eqn.primitive.bind(x))

    def around(x):
        with mjax.named_scope("outer"), set_xla_metadata(b=2):
            return core.eval_jaxpr(jaxpr, [], x)[0]

    entry = (HOST, 'a = "1"')
    assert noted(again, 1.0) == [("cosine", *entry), ("sine", *entry)]
    assert noted(around, 1.0) == [("sine", *entry, 'b = "2"')]
    copy = core.new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, {}, ctx=eqn.ctx)
    assert copy.ctx == eqn.ctx and eqn.replace(ctx=core.JaxprEqnContext()).ctx.compute_type is None
    assert core.inline_calls(mjax.make_jaxpr(mjax.jit(f))(1.0)).eqns[0].ctx == eqn.ctx


def test_programs_differ_by_their_requests():
    @mjax.jit
    def f(x):
        traced.append(pe.xla_metadata_lib.current_xla_metadata())
        return lax.sin(x)

    traced = []
    for value in (1, True, 1, None):
        with set_xla_metadata(a=value):
            f(1.0)
    assert traced == [{"a": 1}, {"a": True}, None] and traced[1]["a"] is True


def test_values():
    def f(x):
        return lax.cos(set_xla_metadata({"s": lax.sin(x), "x": x}, a=1.5)["s"])

    assert noted(f, 1.0) == [("sine", 'a = "1.5"')]
    assert noted(lambda x: set_xla_metadata(set_xla_metadata(lax.sin(x), a=1), a=2, b=3), 1.0) == [
        ("sine", 'a = "1"', 'b = "3"')]
    keys = mjax.vmap(lambda k: set_xla_metadata(k, a=1))(mjax.random.split(mjax.random.key(0), 2))
    assert keys.shape == (2,)


def test_rules_of_the_host_are_taken_there():
    p = core.Primitive("placed")
    p.def_abstract_eval(lambda x: x)
    for platform, rule in (("cpu", lax.sin), ("cuda", lax.cos)):
        mlir.register_lowering(p, mlir.lower_fun(lambda x, rule=rule: rule(x), False), platform)

    def f(x):
        with compute_on("device_host"):
            x = p.bind(x)
        return p.bind(x)

    text = mjax.jit(f).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    assert text.index("stablehlo.sine") < text.index("stablehlo.cosine")


def test_those_in_force():
    assert pe.compute_on.current_compute_type() is None
    assert pe.xla_metadata_lib.current_xla_metadata() is None
    with pe.compute_on.extend_compute_type(None) as kind:
        assert kind is None is pe.compute_on.current_compute_type()
    with pe.compute_on.extend_compute_type("device") as kind, set_xla_metadata(b=1, a=2):
        assert kind == "device" == pe.compute_on.current_compute_type()
        assert pe.xla_metadata_lib.current_xla_metadata() == {"a": 2, "b": 1}
    context = set_xla_metadata(a=1)
    with context, context:
        assert pe.xla_metadata_lib.current_xla_metadata() == {"a": 1}
    assert mjax._engine.base.thread.thread.source is None


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: compute_on("moon").__enter__(), ValueError,
     "'moon' is not a compute type. These are: 'device_host'"),
    (lambda: compute_on(1).__enter__(), TypeError,
     "the compute type must be a string, got 1 of type int"),
    (lambda: set_xla_metadata(a=[]), TypeError, "unhashable type: 'list'"),
    (lambda: set_xla_metadata("x", a=1), TypeError, "set_xla_metadata"),
    (lambda: mjax.config.update("annotations", None), AttributeError, "a function of its own"),
])
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
