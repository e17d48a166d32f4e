"""Derivatives and batches of programs with references, against the same without."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.custom_batching import custom_vmap
from mjax.sharding import PartitionSpec as P


def mutating(x):
    ref = mjax.new_ref(jnp.zeros(3))
    ref[0] = jnp.sin(x)
    ref[1] += ref[0] * x

    def body(i, c):
        ref[2] += c * ref[0]
        return c * 2.0

    lax.fori_loop(0, 3, body, x)
    lax.cond(x > 1.0, lambda: ref.__setitem__(1, ref[1] * x), lambda: None)
    return mjax.freeze(ref).sum()


def pure(x):
    return jnp.sin(x) + jnp.sin(x) * x * jnp.where(x > 1.0, x, 1.0) + 7 * x * jnp.sin(x)


HOLDERS = {"plain": lambda f: f, "jit": mjax.jit, "checkpoint": mjax.checkpoint,
           "jit of checkpoint": lambda f: mjax.jit(mjax.checkpoint(f)),
           "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]}
X = jnp.array([0.5, 1.5, 2.0])
TRANSFORMATIONS = {
    "jvp": lambda f: mjax.jvp(f, (0.5,), (2.0,)), "grad": lambda f: mjax.grad(f)(1.5),
    "jit of grad": lambda f: mjax.jit(mjax.grad(f))(1.5), "second": lambda f: mjax.hessian(f)(1.5),
    "grad of grad": lambda f: mjax.grad(mjax.grad(f))(0.5), "vmap": lambda f: mjax.vmap(f)(X),
    "vmap of grad": lambda f: mjax.vmap(mjax.grad(f))(X),
    "grad of vmap": lambda f: mjax.grad(lambda x: mjax.vmap(f)(x).sum())(X),
    "linearize": lambda f: mjax.linearize(f, 0.5)[1](2.0)}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations(holder, name):
    found, expected = (TRANSFORMATIONS[name](HOLDERS[holder](f)) for f in (mutating, pure))
    for a, b in zip(mjax.tree.leaves(found), mjax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, 1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit], ids=["plain", "jit"])
def test_references_of_tangents(wrap):
    ref, tangent = (mjax.new_ref(jnp.zeros(2)) for _ in range(2))

    def f(ref, x):
        ref[0] = x * x
        return ref[0] * x

    assert list(map(float, mjax.jvp(wrap(f), (ref, 3.0), (tangent, 1.0)))) == [27, 27]
    np.testing.assert_array_equal(ref[...], [9, 0])
    np.testing.assert_array_equal(tangent[...], [6, 0])


def test_derivatives_of_loops_over_rows():
    def f(x):
        ref = mjax.new_ref(x)
        c, ys = lax.scan(lambda c, row: (c * row[0], (row.set(c * 2, 0), row[1])[1]), 1.5, ref)
        return c + (ys * mjax.freeze(ref)[:, 0]).sum()

    def pure(x):
        before = jnp.concatenate([jnp.array([1.5]), 1.5 * jnp.cumprod(x[:, 0])])
        return before[-1] + (x[:, 1] * before[:-1] * 2).sum()

    x = jnp.array([[2.0, 1.0], [0.5, 3.0], [1.5, -2.0]])
    for g in (mjax.grad, lambda f: lambda x: mjax.jvp(mjax.jit(f), (x,), (x,))[1]):
        np.testing.assert_allclose(g(f)(x), g(pure)(x), 1e-5)


def test_references_to_integers_have_tangents_of_float0():
    zero = np.zeros((), mjax.dtypes.float0)
    count = mjax.new_ref(3)

    def f(n, x):
        n[...] += 1
        return n[...] * x

    for g in (f, mjax.jit(f)):
        before = int(count[...])
        value, tangent = mjax.jvp(g, (count, 2.0), (zero, 1.0))
        assert (float(value), float(tangent)) == (2 * (before + 1), before + 1)


@pytest.mark.parametrize("wrap", [
    lambda f: f, mjax.jit, mjax.checkpoint,
    lambda f: lambda r, x: lax.scan(lambda c, _: (c, f(r, x)), 0.0, None, length=1)[0]])
def test_batched_references(wrap):
    ref = mjax.new_ref(jnp.zeros((2, 3)))

    def f(ref, x):
        ref[0] = x
        mjax.ref.addupdate(ref, 1, ref[0] * 2)

    mjax.vmap(wrap(f), (1, 0))(ref, jnp.arange(3.0))
    np.testing.assert_array_equal(ref[...], [[0, 1, 2], [0, 2, 4]])


def test_batched_places_and_ends():
    ref = mjax.new_ref(jnp.arange(4.0))
    np.testing.assert_array_equal(mjax.vmap(lambda i: ref[i])(jnp.array([2, 0])), [2, 0])

    def f(n, p):
        r = mjax.new_ref(jnp.zeros(2))

        def body(i):
            r[i % 2] += 1.0
            return i + 1

        lax.while_loop(lambda i: i < n, body, 0)
        lax.cond(p, lambda: r.__setitem__(0, 9.0), lambda: None)
        return mjax.freeze(r)

    np.testing.assert_array_equal(
        mjax.vmap(f)(jnp.arange(4), jnp.array([True, False, False, False])),
        [[9, 0], [1, 0], [1, 1], [2, 1]])


@mjax.custom_vjp
def stash(ref, x):
    return x


def _stash_backward(ref, ct):
    ref[...] += ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), _stash_backward)


@pytest.mark.parametrize("wrap", [
    mjax.grad, lambda f: mjax.jit(mjax.grad(f)), lambda f: mjax.grad(mjax.jit(f)),
    lambda f: mjax.grad(mjax.checkpoint(f))], ids=["grad", "jit of grad", "grad of jit", "remat"])
def test_gradients_accumulate_in_references(wrap):
    ref, xs = mjax.new_ref(0.0), jnp.arange(3.0)
    loop = lambda xs: lax.scan(
        lambda c, x: (c + jnp.sin(stash(ref, x * 2)), None), 0.0, xs)[0]
    for f in (loop, lambda xs: jnp.sin(stash(ref, xs[0])) + jnp.sin(stash(ref, xs[1] * 2))):
        ref[...] = 0.0
        wrap(f)(xs)
        wanted = np.cos(2 * np.arange(3 if f is loop else 2)).sum()
        np.testing.assert_allclose(ref[...], wanted, 1e-5)


def test_shard_map():
    mesh = mjax.make_mesh((1,), ("i",))
    region = mjax.shard_map(lambda ref, x: (ref.__setitem__(..., ref[...] + x), ref[...] * 2)[1],
                            mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P("i"))
    ref, x = mjax.new_ref(jnp.zeros(2)), jnp.arange(2.0)
    np.testing.assert_array_equal(region(ref, x), [0, 2])
    np.testing.assert_array_equal(mjax.jit(region)(ref, x), [0, 4])
    np.testing.assert_array_equal(ref[...], [0, 2])

    def inside(x):
        ref = mjax.new_ref(x)
        ref[0] *= 3.0
        return mjax.freeze(ref)

    f = mjax.shard_map(inside, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(mjax.grad(lambda x: f(x).sum())(x), [3, 1])


# ---- functions with rules --------------------------------------------------------------------


@mjax.custom_jvp
def tripled(ref, x):
    """Reads, writes and adds; its rule says that the derivative is 5."""
    ref[0] += x
    scratch = mjax.new_ref(ref[0])
    return mjax.freeze(scratch) * 3.0


tripled.defjvp(lambda primals, tangents: (tripled(*primals), tangents[1] * 5.0 + tangents[0][0]))


@mjax.custom_vjp
def halved(ref, x):
    ref[0] += x
    return ref[0] * 0.5


def _halved_forward(ref, x):
    ref[0] += x
    return ref[0] * 0.5, ref[0]


halved.defvjp(_halved_forward, lambda residual, ct: (None, ct * residual))


@custom_vmap
def named(ref, x):
    return ref[0] * x


named.def_vmap(lambda size, batched, ref, x: (ref[0] * x * 10.0, True))
RULES = {"custom_jvp": (tripled, 5, 9), "custom_vjp": (halved, 3, 1.5),
         "custom_vmap": (named, 1, 2)}
AROUND = {
    "plain": lambda f: f, "jit": mjax.jit, "checkpoint": mjax.checkpoint,
    "nested": lambda f: mjax.jit(mjax.checkpoint(f)),
    "scan": lambda f: lambda r, x: lax.scan(lambda c, _: (f(r, c), None), x, None, length=1)[0],
    "cond": lambda f: lambda r, x: lax.cond(x > 0.0, f, lambda r, x: x, r, x),
    "while": lambda f: lambda r, x: lax.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, f(r, c[1])), (0, x))[1],
    "closed over": lambda f: lambda r, x: mjax.jit(lambda x: f(r, x))(x)}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("around", AROUND)
def test_rules_of_functions_that_take_references(rule, around):
    f, derivative, value = RULES[rule]
    g, ref = AROUND[around](f), mjax.new_ref(jnp.ones(2))
    assert float(g(ref, jnp.float32(2))) == value
    kept = float(ref[0])
    assert kept == (1 if rule == "custom_vmap" else 3)
    ref[0] = 1.0
    if rule == "custom_vmap":
        vmapped = mjax.vmap(lambda x: g(ref, x))(jnp.array([2.0, 3.0]))
        np.testing.assert_array_equal(vmapped, [20, 30])
    if around == "while" and rule != "custom_jvp":
        return  # loops of unknown length have forward mode alone
    if around == "while":
        tangent = mjax.jvp(lambda x: g(ref, x), (jnp.float32(2),), (jnp.float32(1),))[1]
    else:
        tangent = mjax.grad(lambda x: g(ref, x))(jnp.float32(2))
    assert (float(tangent), float(ref[0])) == (derivative, kept)


@pytest.mark.parametrize("around", ["plain", "jit", "scan", "checkpoint"])
def test_rules_of_functions_that_make_references(around):
    """Contents that are differentiated, of references that the function around makes."""
    for f, wanted in ((tripled, 6), (halved, 3)):
        g = AROUND[around](f)
        found = mjax.jit(mjax.grad(lambda x, g=g: (
            lambda r: g(r, x) + r[1])(mjax.new_ref(jnp.array([1.0, 0.0]) * x / x * 1.0))))(2.0)
        np.testing.assert_allclose(found, wanted - (f is tripled), 1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit, mjax.checkpoint])
def test_rules_of_functions_that_count(wrap):
    """A reference to integers does not have tangents."""
    @mjax.custom_jvp
    def f(count, x):
        count[...] += 1
        return x * 2.0

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[1] * 5.0))
    count = mjax.new_ref(jnp.int32(0))
    assert float(mjax.grad(wrap(f), 1)(count, 2.0)) == 5 and int(count[...]) == 1


@mjax.custom_vjp
def both(ref, x):
    ref[...] += x * ref[...]
    return ref[...] * x


def _both_forward(ref, x):
    return both.fun(ref, x), (ref, x)


def _both_backward(residuals, ct):
    ref, x = residuals
    out = ref[...] * ct
    ref[...] = out + x
    return None, out


both.defvjp(_both_forward, _both_backward)


def _looped(xs):
    """The gradient of two calls of `both`, with the contents 0.5 before, and those after."""
    content, x = np.full_like(xs, 0.5), xs
    inputs = []
    for _ in range(2):
        inputs.append(x)
        content = content + x * content
        x = content * x
    ct = np.ones_like(xs)
    for x in reversed(inputs):
        ct = content * ct
        content = ct + x
    return ct, content


BOTH = {
    "jit": lambda f: mjax.jit(lambda r, x: f(r, f(r, x))),
    "scan": lambda f: lambda r, x: lax.scan(lambda c, _: (f(r, c), None), x, None, length=2)[0],
    "checkpoint": lambda f: mjax.checkpoint(lambda r, x: f(r, f(r, x))),
    "scan of checkpoint": lambda f: BOTH["scan"](mjax.checkpoint(mjax.jit(f))),
    "cond": lambda f: lambda r, x: lax.cond(
        True, lambda x: f(r, f(r, x)), lambda x: x, x)}


@pytest.mark.parametrize("around", BOTH)
@pytest.mark.parametrize("outer", [lambda f: f, mjax.jit])
def test_a_reference_for_both_passes(around, outer):
    """One that the function writes, and its backward rule, which runs later, too."""
    f = BOTH[around](both)
    wanted = _looped(np.float32([2.0, 3.0]))
    for i in range(2):
        ref = mjax.new_ref(jnp.float32(0.5))
        found = outer(mjax.grad(f, 1))(ref, jnp.float32(2 + i))
        np.testing.assert_allclose([found, ref[...]], [w[i] for w in wanted], 1e-6)


@pytest.mark.parametrize("around", ["jit", "scan of checkpoint", "cond"])
def test_batched_references_for_both_passes(around):
    f, xs = BOTH[around](both), jnp.array([2.0, 3.0])
    for g in (mjax.vmap(mjax.grad(f, 1)),
              mjax.grad(lambda r, x: mjax.vmap(f)(r, x).sum(), 1)):
        ref = mjax.new_ref(jnp.full(2, 0.5))
        found = g(ref, xs)
        np.testing.assert_allclose([found, ref[...]], _looped(np.asarray(xs)), 1e-6)


def test_a_backward_rule_in_a_branch_of_batch_elements():
    f = lambda p, r, x: lax.cond(p, lambda x: stash(r, x), lambda x: x * 5.0, x)
    ref = mjax.new_ref(jnp.array([0.5, 1.0]))
    found = mjax.vmap(mjax.grad(f, 2))(jnp.array([True, False]), ref, jnp.array([2.0, 3.0]))
    wanted = mjax.new_ref(jnp.float32(0.5))
    assert found.tolist() == [float(mjax.grad(stash, 1)(wanted, 2.0)), 5.0]
    assert ref[...].tolist() == [float(wanted[...]), 1.0]


@mjax.custom_vjp
def product(ref, x):
    return x * ref[...]


product.defvjp(lambda ref, x: (x * ref[...], (x, ref[...])),
               lambda residuals, ct: (ct * residuals[0], ct * residuals[1]))


@pytest.mark.parametrize("around", ["plain", "jit", "checkpoint", "nested", "scan", "cond"])
@pytest.mark.parametrize("outer", [lambda f: f, mjax.jit])
def test_cotangents_of_references(around, outer):
    """A `bwd` rule may give the cotangent of what the reference held before the call."""
    f = AROUND[around](product)
    g = lambda x: f(mjax.new_ref(x * x), x)
    for grads in (lambda x: mjax.vmap(mjax.grad(g))(x), mjax.grad(lambda x: mjax.vmap(g)(x).sum())):
        np.testing.assert_allclose(outer(grads)(jnp.array([3.0, 2.0])), [27, 12], 1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit])
def test_cotangents_of_references_that_many_read(wrap):
    f = wrap(lambda x: mjax.vmap(product, (None, 0))(mjax.new_ref(x[0]), x).sum())
    np.testing.assert_allclose(mjax.grad(f)(jnp.array([3.0, 2.0])), [8, 3], 1e-6)
    ref = mjax.new_ref(2.0)  # not differentiated
    assert float(mjax.grad(wrap(lambda x: product(ref, x)))(3.0)) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, mjax.jit])
def test_references_among_arguments_that_are_not_differentiated(wrap):
    ref = mjax.new_ref(4.0)
    f = mjax.custom_vjp(lambda ref, x: x * ref[...], nondiff_argnums=(0,))

    def backward(ref, _, ct):
        ref[...] += ct
        return (ct * 2.0,)

    f.defvjp(lambda ref, x: (x * ref[...], None), backward)
    assert float(wrap(mjax.grad(lambda x: f(ref, x)))(1.0)) == 2 and float(ref[...]) == 5
    g = mjax.custom_jvp(lambda ref, x: x * ref[...], nondiff_argnums=(0,))
    g.defjvp(lambda ref, primals, tangents: (g(ref, *primals), tangents[0] * 7.0))
    assert float(wrap(mjax.grad(lambda x: g(ref, x)))(1.0)) == 7


def test_references_of_a_program_for_its_backward_rules():
    """The backward pass runs after the program that made the reference."""
    f = mjax.jit(lambda x: both(mjax.new_ref(jnp.float32(0.5)), x))
    with pytest.raises(ValueError, match=r"custom_vjp function .*the program around it makes"):
        mjax.grad(f)(2.0)


def test_residuals_that_are_references_and_optimize_remat():
    @mjax.custom_vjp
    def f(ref, x):
        return x * 2.0

    def backward(ref, ct):
        ref[...] += ct
        return None, ct * 3.0

    f.defvjp(lambda ref, x: (x * 2.0, ref), backward, optimize_remat=True)
    ref = mjax.new_ref(jnp.float32(0.0))
    assert float(mjax.grad(mjax.jit(f), 1)(ref, 2.0)) == 3 and float(ref[...]) == 1
