"""`primitive_from_function`: all rules derive from the implementation, or are the author's."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from mjax_ext import core
from mjax_ext.interpreters import ad, batching, mlir, partial_eval

X, Y = np.linspace(0.1, 0.9, 3, dtype=np.float32), np.linspace(1, 2, 3, dtype=np.float32)
XX = np.stack([X, 2 * X])


def wave(x, y, *, power: int):
    return lax.sin(x) * y ** power


wave_p = core.primitive_from_function("wave_from_function", wave)
pair_p = core.primitive_from_function(
    "pair_from_function", lambda x, y: (x * y, lax.cos(x)), multiple_results=True)
one = lambda x, y: wave_p.bind(x, y, power=2)
plain = lambda x, y: wave(x, y, power=2)
two = lambda x, y: tuple(pair_p.bind(x, y))
plain_two = lambda x, y: (x * y, lax.cos(x))
MESH = lambda: mjax.make_mesh((1,), ("i",))
total = lambda f: lambda x, y: sum(o.sum() for o in jnp.atleast_2d(f(x, y)))

USES = {
    "eager": lambda f: f(X, Y),
    "jit": lambda f: mjax.jit(f)(X, Y),
    "jvp": lambda f: mjax.jvp(f, (X, Y), (Y, X)),
    "jvp of one": lambda f: mjax.jvp(lambda x: f(x, Y), (X,), (Y,)),
    "linearize": lambda f: mjax.linearize(f, X, Y)[1](Y, X),
    "grad": lambda f: mjax.grad(lambda x, y: sum(map(jnp.sum, mjax.tree.leaves(f(x, y)))), (0, 1))(
        X, Y),
    "jitted grad of grad": lambda f: mjax.jit(mjax.grad(lambda x: mjax.grad(
        lambda x: sum(map(jnp.sum, mjax.tree.leaves(f(x, 2.0)))))(x)))(np.float32(0.3)),
    "vmap": lambda f: mjax.vmap(f, (0, None))(XX, Y),
    "vmap of grad": lambda f: mjax.vmap(mjax.grad(lambda x: sum(map(jnp.sum, mjax.tree.leaves(
        f(x, Y))))))(XX),
    "remat": lambda f: mjax.grad(lambda x: sum(map(jnp.sum, mjax.tree.leaves(
        mjax.checkpoint(f)(x, Y)))))(X),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(c, x)), X, np.stack([Y, X]))[1],
    "grad of scan": lambda f: mjax.grad(lambda c: sum(map(jnp.sum, mjax.tree.leaves(lax.scan(
        lambda c, x: (c * 2, f(c, x)), c, np.stack([Y, X]))[1]))))(X),
    "cond": lambda f: mjax.jit(lambda x, y: lax.cond(x.sum() > 0, f, f, y, x))(X, Y),
    "shard_map": lambda f: mjax.shard_map(
        lambda x: f(x, Y), mesh=MESH(), in_specs=mjax.P("i"), out_specs=mjax.P("i"))(X),
    "dce": lambda f: mjax.jit(lambda x, y: mjax.tree.leaves(f(x, y))[0])(X, Y),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("f", "reference"), [(one, plain), (two, plain_two)], ids=["one", "two"])
def test_as_the_function(use, f, reference):
    for a, b in zip(*(mjax.tree.leaves(USES[use](g)) for g in (f, reference)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


def test_one_equation():
    eqn, = mjax.make_jaxpr(one)(X, Y).eqns
    assert (eqn.primitive, eqn.params) == (wave_p, {"power": 2})
    core.check_jaxpr(mjax.make_jaxpr(mjax.grad(lambda x: one(x, Y).sum()))(X))
    assert [e.primitive.name for e in mjax.make_jaxpr(mjax.vmap(one))(XX, XX).eqns] == ["jit"]


def test_unused_equations_go():
    jaxpr = mjax.make_jaxpr(lambda x, y: (one(x, y), x)[1])(X, Y)
    assert partial_eval.dce_jaxpr(jaxpr, [True])[0].eqns == []


def test_the_schema_is_that_of_the_function():
    assert wave_p.schema.params == {"power": int}
    assert core.primitive_from_function("any_params", lambda x, **params: x).schema is None
    with pytest.raises(TypeError, match="'power' is missing"):
        wave_p.bind(X, Y)
    rows = [((X, Y), {"power": 1})]
    assert core.primitive_from_function("with_rows", wave, examples=rows).schema.examples == rows


def test_it_is_linear_where_the_function_is():
    p = core.primitive_from_function("triple", lambda x, y: 3.0 * x * y)
    transposed, = mjax.linear_transpose(lambda x: p.bind(x, Y), X)(X)
    np.testing.assert_allclose(transposed, 3 * Y * X, rtol=1e-6)


def test_programs_and_functions_as_params():
    def apply(x, *, body: core.Jaxpr, then: Any):
        return then(core.eval_jaxpr(body, body.consts, x)[0])

    p = core.primitive_from_function("apply_from_function", apply)
    body = mjax.make_jaxpr(lax.sin)(X)
    assert p.schema.bodies == ("body",)
    f = lambda x: p.bind(x, body=body, then=lax.exp)
    np.testing.assert_allclose(f(X), np.exp(np.sin(X)), rtol=1e-6)
    np.testing.assert_allclose(mjax.jvp(f, (X,), (Y,))[1], np.exp(np.sin(X)) * np.cos(X) * Y,
                               rtol=1e-6)


def test_effects_are_those_of_the_function():
    seen = []

    def loud(x):
        mjax.debug.callback(lambda v: seen.append(float(v)), x)
        return 2 * x

    p = core.primitive_from_function("loud_from_function", loud)
    assert mjax.make_jaxpr(p.bind)(1.0).effects
    mjax.jit(lambda x: (p.bind(x), x)[1])(3.0)  # dead code with an effect stays
    mjax.effects_barrier()
    assert seen == [3.0]
    mjax.vmap(p.bind)(X)
    mjax.effects_barrier()
    assert len(seen) == 4


def test_references_within_but_not_as_operands():
    def counting(x):
        ref = mjax.new_ref(x)
        ref[...] = ref[...] * 2
        return ref[...]

    p = core.primitive_from_function("counting_from_function", counting)
    np.testing.assert_allclose(mjax.jit(p.bind)(X), 2 * X)
    np.testing.assert_allclose(mjax.grad(lambda x: p.bind(x).sum())(X), [2, 2, 2])
    with pytest.raises(TypeError, match="takes arrays, but was given a reference"):
        mjax.jit(lambda x: p.bind(mjax.new_ref(x)))(X)


def test_authors_override_what_they_want():
    p = core.primitive_from_function("overridden", lambda x: lax.sin(x))
    assert p.rules()["jvp"].startswith("derived")
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), 10.0 * tangents[0])
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(args[0]) + 1.0, dims[0])
    np.testing.assert_allclose(mjax.grad(lambda x: p.bind(x).sum())(X), [10, 10, 10])
    np.testing.assert_allclose(mjax.vmap(p.bind)(X), np.sin(X) + 1, rtol=1e-6)


def test_lowerings_of_authors_stay_under_differentiation():
    p = core.primitive_from_function("kernel_from_function", lambda x: lax.sin(x))
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.CosineOp(x).results)
    out, tangent = mjax.jvp(mjax.jit(p.bind), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(out, np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(tangent, np.cos(X), rtol=1e-6)


def test_functions_that_pull_cotangents_back():
    """Reverse mode needs the rule of a custom_vjp function alone."""
    @mjax.custom_vjp
    def clipped(x):
        return lax.sin(x)

    clipped.defvjp(lambda x: (lax.sin(x), x), lambda x, ct: (lax.min(ct, 0.5) * lax.cos(x),))
    p = core.primitive_from_function("clipped_from_function", lambda x, y: clipped(x) * y)
    for f in (p.bind, mjax.jit(p.bind), mjax.checkpoint(p.bind)):
        for x, y in ((0.3, 0.25), (0.3, 2.0)):
            grads = mjax.grad(f, argnums=(0, 1))(np.float32(x), np.float32(y))
            np.testing.assert_allclose(grads, (min(y, 0.5) * np.cos(x), np.sin(x)), rtol=1e-6)
    np.testing.assert_allclose(
        mjax.vmap(mjax.grad(p.bind))(X, Y), np.minimum(Y, 0.5) * np.cos(X), rtol=1e-6)
    with pytest.raises(TypeError, match="forward-mode differentiation"):
        mjax.jvp(p.bind, (X, Y), (X, Y))


@pytest.mark.parametrize("check_vma", [True, False])
def test_functions_with_casts(check_vma):
    """The engine casts operands that do not vary; the author names no axes."""
    weighted = mjax.custom_jvp(lambda x: lax.cond(x.sum() > 0, lambda: x * Y, lambda: jnp.ones(3)))
    weighted.defjvp(lambda xs, dots: (weighted(*xs), Y * dots[0]))
    p = core.primitive_from_function("weighted_from_function", weighted)
    f = mjax.shard_map(p.bind, mesh=MESH(), in_specs=mjax.P("i"), out_specs=mjax.P("i"),
                       check_vma=check_vma)
    np.testing.assert_allclose(f(X), X * Y, rtol=1e-6)
    np.testing.assert_allclose(mjax.grad(lambda x: f(x).sum())(X), Y, rtol=1e-6)


@pytest.mark.parametrize(("f", "several", "text"), [
    (lambda x: {"a": x}, False, "returned .* it must return one array .*Flatten pytrees"),
    (lambda x: (x, x), False, "must return one array .or be made with multiple_results=True"),
    (lambda x: x, True, "must return a list or tuple of arrays"),
    (lambda x: [x, {"a": x}], True, "must return a list or tuple of arrays"),
    (lambda x: lax.psum(x, "i"), False, "names the axes i. Collectives belong"),
])
def test_functions_that_are_refused(f, several, text):
    p = core.primitive_from_function("refused_from_function", f, multiple_results=several)
    with pytest.raises(TypeError, match=f"(?s)the implementation of primitive 'refused.*{text}"):
        mjax.vmap(lambda x: mjax.jit(p.bind)(x), axis_name="i")(X)


def test_what_is_traced_is_an_operand():
    def outer(y):
        return core.primitive_from_function("closes_over", lambda x: x * y).bind(X)

    with pytest.raises(TypeError, match="closes over a value that is being traced"):
        mjax.jit(outer)(Y)
    with pytest.raises(TypeError, match="f must be a function, not 3"):
        core.primitive_from_function("no_function", 3)


def test_what_the_function_raises_names_the_primitive():
    p = core.primitive_from_function("takes one", lambda x: x)
    for call in p.bind, mjax.jit(p.bind):
        with pytest.raises(TypeError) as caught:
            call(1.0, 2.0)
        assert any(re.match(r"Raised in the implementation of primitive 'takes one' \(.*:\d+\), ma",
                            note) for note in caught.value.__notes__)


def test_names_are_texts():
    with pytest.raises(TypeError, match="the name of a primitive is a text, not 3 of type int"):
        core.primitive_from_function(3, lambda x: x)


def test_a_numpy_function_in_the_implementation():
    p = core.primitive_from_function("numpy in an implementation", lambda x: np.sin(x))
    with pytest.raises(TypeError, match="while primitive_from_function traces the function"):
        p.bind(np.float32(1))
