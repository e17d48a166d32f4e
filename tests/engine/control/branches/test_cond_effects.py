"""cond and switch: effects of branches, and device variance."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.control.branches.cond import bind_cond
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.lowering.tokens import TokenSet
from mjax._engine.primitives.emit import hlo
from mjax._engine.tracing.interpreter import axes_in_scope
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from tests.engine.control.branch_programs import (
    PREDICATES,
    XS,
    X,
    Y,
)

# ---- effects ---------------------------------------------------------------------------


def knocking(**policy):
    class Knock(Effect):
        pass

    Knock.policy = EffectPolicy(**policy)
    knock = Knock()
    knock_p = Primitive("knock")
    knock_p.def_effectful_abstract_eval(lambda x: (x, {knock}))
    knock_p.def_batch(lambda args, dims: (knock_p.bind(*args), dims[0]))
    knock_p.def_jvp(lambda primals, tangents: (knock_p.bind(*primals), tangents[0]))
    return knock, knock_p


def test_effects_are_those_of_all_branches():
    knock, knock_p = knocking()
    other, other_p = knocking()
    f = lambda p, x: lax.cond(p, knock_p.bind, other_p.bind, x)
    jaxpr = mjax.make_jaxpr(f)(True, X)
    assert jaxpr.effects == {knock, other}
    smaller, _ = dce_jaxpr(jaxpr, [False])
    assert smaller.effects == {knock, other}
    both = mjax.make_jaxpr(mjax.vmap(f))(PREDICATES, XS)
    assert both.effects == {knock, other}
    assert mjax.make_jaxpr(mjax.grad(lambda p, x: jnp.sum(f(p, x)), 1))(True, X).effects == {
        knock, other}


def test_effects_that_no_batch_may_repeat():
    _, knock_p = knocking(batchable=False)
    f = lambda p, x: lax.cond(p, lambda x: (knock_p.bind(X), x)[1], lambda x: x, x)
    assert mjax.make_jaxpr(mjax.vmap(f, (None, 0)))(True, XS).effects
    g = lambda p, x: lax.cond(p, knock_p.bind, lambda x: x, x)
    with pytest.raises(ValueError, match=r"vmap of knock.*Knock.*batchable=False"):
        mjax.make_jaxpr(mjax.vmap(g, (None, 0)))(True, XS)
    with pytest.raises(TypeError, match=r"vmap of cond over its predicate.*Knock.*batchable=False"):
        mjax.make_jaxpr(mjax.vmap(f))(PREDICATES, XS)


def test_effects_that_no_branch_may_have():
    _, knock_p = knocking(control_flow=False)
    with pytest.raises(TypeError, match=r"cond: <lambda> at .*test_cond.* Knock"):
        lax.cond(True, lambda x: knock_p.bind(x), lambda x: x, X)


def test_ordered_effects_of_some_branches():
    """Effects after a branch without the effect come after those before it."""
    log, log_p = knocking(ordered=True, token="log")

    @log_p.def_lowering
    def lower(ctx, x):
        token = hlo.after_all([ctx.tokens_in.get(log)])
        ctx.set_tokens_out(TokenSet({log: token}))
        return [x]

    def between(f):
        return lambda p, x: log_p.bind(f(p, log_p.bind(x)))

    for f, count in [
            (lambda p, x: lax.cond(p, log_p.bind, lambda x: x, x), 3),
            (lambda p, x: lax.platform_dependent(x, cpu=lambda x: x, default=log_p.bind), 2),
            (lambda p, x: lax.platform_dependent(x, tpu=lambda x: x, default=log_p.bind), 3)]:
        text = mjax.jit(between(f)).lower(True, X).as_text()
        assert text.count("stablehlo.after_all") == count


# ---- device variance -------------------------------------------------------------------


def test_where_devices_may_branch_differently_results_vary():
    with axes_in_scope([("i", 2)]):  # the types alone, without a mesh
        axes = frozenset({"i"})
        branches = tuple(stage(f, [typeof(X), typeof(Y)]) for f in (
            lambda x, y: [lax.sin(x), y], lambda x, y: [lax.mul(x, y), jnp.ones(3)]))
        index = ShapedArray((), np.int32, False, axes)
        jaxpr = stage(lambda i, x, y: bind_cond(i, [x, y], branches), [index, typeof(X), typeof(Y)])
        assert [e.primitive.name for e in jaxpr.eqns] == ["pvary", "pvary", "cond"]
        assert [a.varying for a in jaxpr.out_avals] == [axes, axes]
        # One operand varies: so do the results that depend on it, in all branches.
        varying = typeof(X).update(varying=axes)
        jaxpr = stage(lambda i, x, y: bind_cond(i, [x, y], branches),
                      [typeof(np.int32(0)), varying, typeof(Y)])
        assert [e.primitive.name for e in jaxpr.eqns] == ["cond"]
        assert [a.varying for a in jaxpr.out_avals] == [axes, frozenset()]
        parts = linearize_jaxpr(jaxpr, [False, True, False])
        recomputed = recompute_jaxpr(jaxpr, [True] * 2, [True] * 2, lambda *_, **__: False)
        for j in (jaxpr, parts.known, parts.unknown, recomputed.known, recomputed.unknown):
            check_jaxpr(j)
