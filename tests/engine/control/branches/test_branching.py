"""cond, switch, platform_dependent as users call them: what they take, and what they refuse."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import errors, lax
from mjax._engine.ir.pytree import tree_map
from mjax.dtypes import float0
from tests.engine.control.branch_programs import PREDICATES, X, Y, close
from tests.engine.reading import names

# ---- values of other kinds -------------------------------------------------------------


def test_predicates_of_all_kinds():
    choose = lambda p: int(lax.cond(p, lambda: 1, lambda: 0))
    for p in (True, 1, -2, 0.5, np.float16(1), np.uint8(3), np.nan, jnp.array(2.0), np.array(True),
              np.bool_(True)):
        assert choose(p) == 1 == int(mjax.jit(choose_of)(p))
    for p in (False, 0, 0.0, -0.0, np.int8(0), jnp.array(0)):
        assert choose(p) == 0 == int(mjax.jit(choose_of)(p))


def choose_of(p):
    return lax.cond(p, lambda: 1, lambda: 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_indices_are_clamped_in_their_own_width(dtype):
    with mjax.enable_x64(True):
        last = np.iinfo(dtype).max
        branches = [lambda: 0, lambda: 1, lambda: 2]
        pick = mjax.jit(lambda i: lax.switch(i, branches))
        for i, expected in [(0, 0), (2, 2), (last, 2), (last // 2 + 1, 2),
                            (np.iinfo(dtype).min, 0)]:
            assert int(pick(np.array(i, dtype))) == expected
            assert int(lax.switch(np.array(i, dtype), branches)) == expected


def test_one_branch_is_called():
    jaxpr = mjax.make_jaxpr(lambda i, x: lax.switch(i, [jnp.sin], x))(np.int32(0), X)
    assert names(jaxpr) == ["sin"]


def test_results_without_leaves():
    assert lax.cond(True, lambda: None, lambda: None) is None
    assert lax.switch(0, [lambda x: (), lambda x: ()], X) == ()
    assert mjax.vmap(lambda p: lax.cond(p, dict, dict))(PREDICATES) == {}


def test_keys():
    key, other = mjax.random.split(mjax.random.key(0))
    f = lambda p, k: lax.cond(p, lambda k: mjax.random.split(k)[0], lambda k: other, k)
    data = mjax.random.key_data
    for transformed in (f, mjax.jit(f)):
        assert (data(transformed(True, key)) == data(mjax.random.split(key)[0])).all()
        assert (data(transformed(False, key)) == data(other)).all()
    many = mjax.vmap(f, (0, None))(PREDICATES, key)
    assert (data(many) == np.stack([data(f(p, key)) for p in PREDICATES])).all()


def test_float0():
    zeros = np.zeros(3, [("float0", np.void, 0)])
    for f in (lambda p, z: lax.cond(p, lambda z: (z, 1), lambda z: (zeros, 2), z),
              lambda p, z: mjax.jit(lambda p: lax.cond(
                  p, lambda z: (z, 1), lambda z: (zeros, 2), zeros))(p)):
        z, n = f(False, zeros)
        assert z.dtype == float0 and int(n) == 2
    out = mjax.vjp(lambda n: lax.cond(True, lambda n: n * 2, lambda n: n, n), np.arange(3))[1](
        np.zeros(3, float0))
    assert out[0].dtype == float0


@pytest.mark.parametrize(("one", "other"), [
    (1, 2), (1, np.int32(2)), (np.int32(1), 2), (1.0, 2.0), (np.float32(1), 2.0)])
def test_a_result_is_weak_if_it_is_in_the_first_branch(one, other):
    """The first branch is `false_fun`."""
    weak = isinstance(one, (int, float))
    f = lambda p: lax.cond(p, lambda: other, lambda: one)
    for out in (f(True), f(False), mjax.jit(f)(True), lax.switch(1, [lambda: one, lambda: other])):
        assert out.weak_type == weak
    close(mjax.grad(lambda x: lax.cond(x > 0, lambda: x * other, lambda: x * one))(2.0), other)


def test_old_forms():
    assert int(lax.cond(True, 3, lambda x: x + 1, 4, lambda x: x * 10)) == 4
    assert int(lax.cond(False, 3, lambda x: x + 1, 4, lambda x: x * 10)) == 40
    assert int(lax.cond(False, lambda x: x + 1, lambda x: x * 10, operand=3)) == 30
    assert int(lax.switch(0, [lambda x: x + 1, lambda x: x * 10], operand=3)) == 4
    assert int(lax.cond(True, lambda x: 1, lambda x: 2, operand=None)) == 1


def test_trees():
    tree = {"a": X, "b": [Y, None, (2,)]}
    f = lambda p, t: lax.cond(p, lambda t: tree_map(lambda x: x * 2, t), lambda t: t, t)
    out = mjax.jit(f)(True, tree)
    assert mjax.tree.structure(out) == mjax.tree.structure(tree)
    close(out, tree_map(lambda x: x * 2, tree))


def test_without_jit_it_is_python():
    seen = []
    with mjax.disable_jit():
        out = lax.cond(True, lambda x: (seen.append(float(x[0])), x * 2)[1],
                       lambda x: seen.append("no"), X)
        lax.switch(jnp.array(1), [lambda: seen.append("no"), lambda: (seen.append(1), 0)[1]])
        mjax.grad(lambda x: lax.cond(x > 0, lambda x: (seen.append(float(x)), x * x)[1],
                                     lambda x: x, x))(3.0)
    close(out, X * 2)
    assert seen == [X[0], 1, 3.0]


# ---- platforms -------------------------------------------------------------------------


def test_platforms():
    here, elsewhere = lambda x: jnp.sin(x), lambda x: jnp.cos(x)
    for f in (lambda x: lax.platform_dependent(x, cpu=here, tpu=elsewhere),
              lambda x: lax.platform_dependent(x, tpu=elsewhere, default=here),
              lambda x: lax.platform_dependent(x, tpu=elsewhere, rocm=elsewhere, cpu=here)):
        for transformed, expected in [
                (f, np.sin(X)), (mjax.jit(f), np.sin(X)),
                (mjax.grad(lambda x: jnp.sum(f(x))), np.cos(X)),  # noqa: B023
                (mjax.grad(mjax.jit(lambda x: jnp.sum(f(x)))), np.cos(X)),  # noqa: B023
                (mjax.jit(mjax.grad(lambda x: jnp.sum(f(x)))), np.cos(X)),  # noqa: B023
                (mjax.vmap(mjax.jit(f)), np.sin(X)), (mjax.jit(mjax.vmap(f)), np.sin(X))]:
            np.testing.assert_allclose(transformed(X), expected, 1e-6)


def test_only_one_platform_is_lowered():
    f = mjax.jit(lambda x: lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, rocm=jnp.cos))
    text = f.lower(X).as_text()
    assert "sine" in text and "cosine" not in text and "case" not in text
    jaxpr = mjax.make_jaxpr(f)(X).eqns[0].params["jaxpr"]
    assert [e.primitive.name for e in jaxpr.eqns] == ["platform_index", "cond"]
    assert jaxpr.eqns[0].params == {"platforms": (("cpu",), ("cuda", "rocm"))}
    assert jaxpr.eqns[1].params["branches_platforms"] == (("cpu",), ("cuda", "rocm"))


def test_platforms_below_a_batched_branch():
    """The platform's index is a residual of a branch that all elements run."""
    @mjax.jit
    def f(x):
        return lax.cond(x > 0, lambda x: mjax.jit(
            lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos))(x) * x,
            lambda x: x, x)

    close(mjax.vmap(mjax.grad(f))(X), np.where(X > 0, np.cos(X) * X + np.sin(X), 1))
    close(mjax.grad(lambda x: jnp.sum(mjax.vmap(f)(x)))(X),
          np.where(X > 0, np.cos(X) * X + np.sin(X), 1))


def test_platforms_that_are_not_there():
    f = lambda x: lax.platform_dependent(x, tpu=jnp.sin)
    for call in (f, mjax.jit(f)):
        with pytest.raises(errors.MissingRuleError, match=(
                r"no branch for the platform 'cpu', only for tpu(.|\n)*test_branching.py")):
            call(X)


# ---- bad input -------------------------------------------------------------------------


def same(x):
    return x


def wrapped(x):
    return {"a": x, "b": [x, x]}


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.cond(X, same, same, X), TypeError,
     ["cond: the predicate must be a scalar", "float32[3]", "vmap", "where"]),
    (lambda: lax.cond(None, same, same, X), TypeError, ["predicate must be a scalar", "None"]),
    (lambda: lax.cond([True], same, same, X), TypeError, ["predicate must be a scalar", "list"]),
    (lambda: lax.cond(1j, same, same, X), TypeError, ["boolean or a real number", "complex64"]),
    (lambda: lax.cond(mjax.random.key(0), same, same, X), TypeError, ["real number", "key<fry>"]),
    (lambda: lax.cond(True, X, same), TypeError, ["cond expects a function", "ndarray"]),
    (lambda: lax.cond(True, same, None, X), TypeError, ["cond expects a function", "None"]),
    (lambda: lax.cond(True, same, same, "x"), TypeError, ["operands[0]", "'x'"]),
    (lambda: lax.cond(True, lambda: {"a": [1, "text"]}, lambda: 1), TypeError,
     ["<lambda> at", "test_branching.py", "result['a'][1] is not a valid array", "'text'"]),
    (lambda: lax.cond(True, same, same, X, operand=X), TypeError, ["operand", "not both"]),
    (lambda: lax.switch(X, [same, same], X), TypeError, ["switch: the index", "scalar",
                                                         "float32[3]"]),
    (lambda: lax.switch(1.0, [same, same], X), TypeError, ["must be an integer", "float32"]),
    (lambda: lax.switch(True, [same, same], X), TypeError, ["must be an integer", "bool"]),
    (lambda: lax.switch(0, [], X), ValueError, ["at least one branch"]),
    (lambda: lax.switch(0, same, X), TypeError, ["sequence of functions"]),
    (lambda: lax.switch(0, [same, 3], X), TypeError, ["branches[1] expects a function", "3"]),
    (lambda: lax.platform_dependent(X), ValueError, ["needs a function"]),
    (lambda: lax.platform_dependent(X, gpu=same), ValueError, ["'cuda'", "'rocm'"]),
    (lambda: lax.platform_dependent(X, cpu=3), TypeError, ["platform_dependent: cpu expects"]),
    (lambda: lax.platform_dependent(X, default=3), TypeError, ["default expects a function"]),
    (lambda: lax.cond(True, wrapped, lambda x: {"a": x, "c": x}, X), TypeError, [
        "true_fun and false_fun must have the same structure",
        "result['b'][0]: float32[3] in true_fun, missing in false_fun",
        "result['c']: missing in true_fun, float32[3] in false_fun",
        "true_fun is wrapped at", "test_branching.py", "false_fun is <lambda>"]),
    (lambda: lax.cond(True, wrapped, lambda x: {"a": x[:2], "b": [x, x]}, X), TypeError,
     ["result['a']: float32[3] in true_fun, float32[2] in false_fun"]),
    (lambda: lax.cond(True, wrapped, lambda x: {"a": x, "b": [x, x.astype(int)]}, X), TypeError,
     ["result['b'][1]: float32[3] in true_fun, int32[3] in false_fun; cast with "
      ".astype('float32')"]),
    (lambda: lax.cond(True, lambda: 1, lambda: 2.0), TypeError, ["~int32[]", "~float32[]"]),
    (lambda: lax.cond(True, lambda: (1, 2), lambda: [1, 2]), TypeError,
     ["tree structure", "(*, *)"]),
    (lambda: lax.switch(0, [same, same, wrapped], X), TypeError,
     ["switch: the results of branch 0 and branch 2", "branch 2 is wrapped"]),
    (lambda: mjax.jit(lambda x: lax.platform_dependent(x, cpu=same, default=wrapped))(X),
     TypeError, ["platform_dependent: the results of cpu and default"]),
], ids=itertools.count())
def test_bad_input(call, error, parts):
    with pytest.raises(error) as info:
        call()
    for part in parts:
        assert part in str(info.value), str(info.value)


def test_bad_input_of_the_old_form_names_the_users_functions():
    with pytest.raises(TypeError, match="true_fun is same at"):
        lax.cond(True, 3, same, 4.0, same)


@pytest.mark.parametrize("f", [lax.cond, lax.switch, lax.platform_dependent],
                         ids=lambda f: f.__name__)
def test_examples(f):
    names = {"mjax": mjax, "lax": lax, "jnp": jnp}
    examples = doctest.DocTestParser().get_doctest(f.__doc__, names, f.__name__, None, None)
    assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)
