"""Types of one's own go through every transformation, and are refused by name where they cannot."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.token_types import AbstractToken
from mjax._engine.transforms.dce import dce_jaxpr
from mjax.sharding import Mesh, PartitionSpec
from mjax_ext.core import AbstractValue, Primitive, ShapedArray
from mjax_ext.interpreters import ad

F = ShapedArray((), np.float32)


class Pair(AbstractValue):
    """Two arrays of one type; tangents are pairs of tangents. Batched, of batched arrays."""

    inexact = True

    def __init__(self, part):
        self.part = part

    def __eq__(self, other):
        return type(other) is Pair and other.part == self.part

    def __hash__(self):
        return hash((Pair, self.part))

    def __repr__(self):
        return f"Pair({self.part})"

    def str_short(self, short_dtypes=False, mesh_axis_types=False):
        return f"pair<{self.part.str_short(short_dtypes)}>"

    varies = True
    varying = property(lambda self: self.part.varying)
    weak_type = property(lambda self: self.part.weak_type)

    def with_varying(self, varying):
        return Pair(self.part.with_varying(varying))

    def strip_weak_type(self):
        return Pair(self.part.strip_weak_type())

    def to_tangent(self):
        return Pair(self.part.to_tangent())

    def element(self, dim):
        return Pair(self.part.element(dim))

    def batched(self, dim, size):
        return Pair(self.part.batched(dim, size))

    def axis_size(self, dim):
        return self.part.axis_size(dim)

    def physical(self):
        return self.part, self.part

    def zeros(self):
        zero = jnp.zeros(self.part.shape, self.part.dtype)
        return pair(zero, zero)


class Metres(AbstractValue):
    """A number with a unit, which its tangents do not have."""

    inexact = True

    def __eq__(self, other):
        return type(other) is Metres

    def __hash__(self):
        return hash(Metres)

    def __repr__(self):
        return "Metres"

    def to_tangent(self):
        return F

    def physical(self):
        return (F,)


class Proof(AbstractValue):
    """That something was checked; nothing at run time."""

    def __eq__(self, other):
        return type(other) is Proof

    def __hash__(self):
        return hash(Proof)

    def __repr__(self):
        return "Proof"

    def physical(self):
        return ()


class Bare(AbstractValue):
    """A type that says nothing of itself."""


pair_p, first_p, second_p = Primitive("pair"), Primitive("first"), Primitive("second")
pair, first, second = pair_p.bind, first_p.bind, second_p.bind


@pair_p.def_abstract_eval
def _(x, y):
    if not x.matches(y):
        raise TypeError(f"pair of {x} and {y}")
    return Pair(x)


first_p.def_abstract_eval(lambda p: p.part)
second_p.def_abstract_eval(lambda p: p.part)
pair_p.def_lowering(lambda ctx, x, y: [(x, y)])
first_p.def_lowering(lambda ctx, p: [p[0]])
second_p.def_lowering(lambda ctx, p: [p[1]])
pair_p.def_jvp(lambda primals, tangents: (
    pair(*primals), pair(*map(ad.instantiate_zeros, tangents))))
pair_p.def_transpose(lambda ct, x, y: [
    part(ct) if ad.is_undefined_primal(v) else None for part, v in ((first, x), (second, y))])
for p, place in ((first_p, 0), (second_p, 1)):
    ad.deflinear2(p, lambda ct, v, place=place: [
        pair(*[ct if i == place else jnp.zeros_like(ct) for i in (0, 1)])])
    p.def_batch(lambda args, dims, p=p: (p.bind(*args), dims[0]))


@pair_p.def_batch
def _(args, dims):
    size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
    return pair(*[jnp.broadcast_to(a, (size, *a.shape)) if d is None else jnp.moveaxis(a, d, 0)
                  for a, d in zip(args, dims)]), 0


metres_p, length_p = Primitive("metres"), Primitive("length")
metres_p.def_abstract_eval(lambda x: Metres())
length_p.def_abstract_eval(lambda m: F)
for p in (metres_p, length_p):
    p.def_lowering(lambda ctx, x: [x])
    p.def_jvp(lambda primals, tangents, p=p: (p.bind(*primals), tangents[0]))

prove_p, use_p = Primitive("prove"), Primitive("use")
prove_p.def_abstract_eval(lambda x: Proof())
prove_p.def_lowering(lambda ctx, x: [()])
use_p.def_abstract_eval(lambda proof, x: x)
use_p.def_lowering(lambda ctx, proof, x: [x])
prove_p.def_jvp(lambda primals, tangents: (prove_p.bind(*primals), ad.Zero(Proof())))
use_p.def_jvp(lambda primals, tangents: (
    use_p.bind(*primals), use_p.bind(primals[0], ad.instantiate_zeros(tangents[1]))))
use_p.def_transpose(lambda ct, proof, x: [None, use_p.bind(proof, ct)])
prove_p.def_batch(lambda args, dims: (prove_p.bind(*args), None))
use_p.def_batch(lambda args, dims: (use_p.bind(*args), dims[1]))

bare_p = Primitive("bare")
bare_p.def_abstract_eval(lambda x: Bare())
bare_p.def_lowering(lambda ctx, x: [x])


def product(p):
    """The product of the parts."""
    return first(p) * second(p)


# ---- what the base class says ----------------------------------------------------------


def test_defaults():
    bare = Bare()
    assert bare.to_tangent() is bare.to_cotangent() is bare.strip_weak_type() is bare
    assert bare.with_varying(frozenset("i")) is bare and bare.varying == frozenset()
    assert bare.matches(bare) and not bare.matches(Bare()) and not bare.matches(F)
    assert not (bare.inexact or bare.literal or bare.extended or bare.weak_type or bare.varies)
    assert bare.axis_size(0) is None and bare.str_short() == str(bare)


@pytest.mark.parametrize(("ask", "match"), [
    (lambda t: t.element(0), r"Bare .* cannot be batched, .*Bare does not define element\(dim\)"),
    (lambda t: t.batched(0, 2), r"stacked by loops: Bare does not define batched\(dim, size\)"),
    (lambda t: t.physical(), r"cannot be compiled: Bare does not define physical\(\)"),
    (lambda t: t.zeros(), r"cannot be zero: Bare does not define zeros\(\)"),
    (lambda t: t.shape, r"Bare .* does not have shape: it is not an array")])
def test_what_is_left_out_is_refused_by_name(ask, match):
    with pytest.raises(TypeError, match=match):
        ask(Bare())
    assert not hasattr(Bare(), "dtype")


def test_arrays_answer_the_same_questions():
    x, key = ShapedArray((2, 3), "float32"), mjax.typeof(mjax.random.key(0))
    n = ShapedArray((), "int32")
    assert x.element(1) is ShapedArray((2,), "float32")
    assert x.element(0).batched(0, 2) is x.batched(2, 7).element(2) is x
    assert [x.axis_size(d) for d in (0, 1, 2, -1, None)] == [2, 3, None, None, None]
    assert n.to_cotangent() is n and n.to_tangent().to_cotangent() is n.to_tangent()
    assert n.literal and not x.literal and not key.literal and key.extended
    assert key.physical() == (ShapedArray((2,), "uint32"),) and x.physical() == (x,)
    assert x.matches(ShapedArray((2, 3), "float32", True, frozenset("i"))) and not x.matches(n)
    with pytest.raises(AttributeError, match="'ShapedArray' object has no attribute 'foo'"):
        x.foo  # noqa: B018
    assert len(AbstractToken().physical()) == 1


def test_a_type_that_is_not_made_yet_names_what_it_lacks():
    class Unmade(AbstractValue):
        def __repr__(self):
            return f"Unmade({self.size})"

    with pytest.raises(AttributeError, match="'Unmade' object has no attribute 'size'"):
        repr(Unmade())


# ---- programs --------------------------------------------------------------------------


def test_values_are_traced_and_printed():
    jaxpr = mjax.make_jaxpr(lambda x: product(pair(x, 2 * x)))(np.float32(3))
    check_jaxpr(jaxpr)
    assert "c:pair<f32[]> = pair a b" in str(jaxpr)
    seen = []
    mjax.make_jaxpr(lambda x: seen.append((repr(pair(x, x)), isinstance(pair(x, x), mjax.Array)))
                    )(np.float32(1))
    assert seen == [("Traced<Pair(float32[])>with<StageInterpreter>", False)]
    assert mjax.eval_shape(lambda x: pair(x, x), np.float32(1)) == Pair(F)


def test_dead_code_and_type_checker():
    jaxpr = mjax.make_jaxpr(lambda x: (pair(x, x), first(pair(x, x + 1.0))))(np.float32(1))
    smaller, _ = dce_jaxpr(jaxpr, [False, True])
    assert [e.primitive.name for e in smaller.eqns] == ["add", "pair", "first"]
    wrong = jaxpr.replace(eqns=[jaxpr.eqns[0].replace(outvars=[type(jaxpr.invars[0])(F)]),
                                *jaxpr.eqns[1:]])
    with pytest.raises(mjax.errors.JaxprTypeError, match=r"bound at type float32\[\], inferred "
                                                         r"Pair\(float32\[\]\)"):
        check_jaxpr(wrong)


@mjax.custom_jvp
def custom_product(p):
    return product(p)


custom_product.defjvp(lambda primals, tangents: (
    product(primals[0]), first(tangents[0]) * second(primals[0])
    + first(primals[0]) * second(tangents[0])))


@mjax.custom_vjp
def custom_vjp_product(p):
    return product(p)


custom_vjp_product.defvjp(
    lambda p: (product(p), (first(p), second(p))),
    lambda parts, ct: (pair(ct * parts[1], ct * parts[0]),))


def by_scan(p):
    def body(p, c):
        return pair(first(p) * c, second(p)), first(p)

    return product(lax.scan(body, p, jnp.full(2, 2.0))[0]) / 4


def by_const(p):
    return lax.scan(lambda c, x: (c + product(p) * x, None), 0.0, jnp.full(2, 0.5))[0]


def by_while(p):
    n, p = lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, pair(second(c[1]), first(c[1]))),
                          (0, p))
    return product(p)


def by_cond(p):
    return product(lax.cond(first(p) > 0, lambda p: pair(second(p), first(p)), lambda p: p, p))


USES = {
    "plain": product, "jit": mjax.jit(product), "remat": mjax.checkpoint(product),
    "result": lambda p: product(mjax.jit(lambda p: pair(second(p), first(p)))(p)),
    "custom_jvp": custom_product, "custom_vjp": custom_vjp_product, "scan": by_scan,
    "const": by_const, "while": by_while, "cond": by_cond, "nested": mjax.jit(mjax.checkpoint(
        mjax.jit(by_const)))}


def of_numbers(name):
    """A function of two numbers that makes a pair of them."""
    return mjax.jit(lambda x, y: USES[name](pair(x, y)))


X, Y = np.float32(3), np.float32(5)


@pytest.mark.parametrize("name", USES)
def test_compiled_programs(name):
    check_jaxpr(mjax.make_jaxpr(of_numbers(name))(X, Y))
    np.testing.assert_allclose(of_numbers(name)(X, Y), 15.0)


@pytest.mark.parametrize("name", USES)
def test_forward_mode(name):
    f = of_numbers(name)
    if name == "custom_vjp":
        with pytest.raises(TypeError, match="forward"):
            mjax.jvp(f, (X, Y), (X, X))
        return
    np.testing.assert_allclose(mjax.jvp(f, (X, Y), (np.float32(1), np.float32(2))), (15.0, 11.0))


@pytest.mark.parametrize("name", USES)
def test_reverse_mode(name):
    f = of_numbers(name)
    if name == "while":
        with pytest.raises(ValueError, match="Reverse-mode differentiation of while_loop"):
            mjax.grad(f)(X, Y)
        return
    np.testing.assert_allclose(mjax.jit(mjax.grad(f, (0, 1)))(X, Y), (5.0, 3.0))
    np.testing.assert_allclose(mjax.jit(mjax.grad(mjax.checkpoint(f), (0, 1)))(X, Y), (5.0, 3.0))
    if name != "custom_vjp":
        np.testing.assert_allclose(mjax.jit(
            lambda x, y: mjax.linearize(f, x, y)[1](np.float32(1), np.float32(2)))(X, Y), 11.0)


@pytest.mark.parametrize("name", USES)
def test_vmap(name):
    xs = np.arange(1, 4, dtype=np.float32)
    if name == "cond":  # its branches cannot be chosen between, element by element
        f = mjax.jit(lambda x, y: lax.cond(y > 0, lambda p: p, lambda p: p, pair(x, y)))
        with pytest.raises(TypeError, match=r"Pair\(float32\[3\]\) does not have ndim"):
            mjax.make_jaxpr(mjax.vmap(f))(xs, xs)
        return
    np.testing.assert_allclose(mjax.jit(mjax.vmap(of_numbers(name)))(xs, 2 * xs), 2 * xs * xs)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(of_numbers(name), (0, None)))(xs, Y), 5 * xs)


def test_derivatives_of_functions_of_pairs():
    """jvp and vjp take and give values of the type, and of its tangents' type."""
    def gradient(x, y):
        (ct,) = mjax.vjp(product, pair(x, y))[1](jnp.float32(1))
        _, tangent = mjax.jvp(product, (pair(x, y),), (ct,))
        return first(ct), second(ct), tangent

    np.testing.assert_allclose(mjax.jit(gradient)(X, Y), (5.0, 3.0, 34.0))

    def unused(x, y):  # a zero cotangent is made by the type
        _, pull = mjax.vjp(lambda p, q: product(p), pair(x, y), pair(x, x))
        return first(pull(jnp.float32(1))[1])

    assert mjax.jit(unused)(X, Y) == 0.0


def test_a_tangent_type_of_its_own():
    def f(x):
        return length_p.bind(metres_p.bind(x)) ** 2

    np.testing.assert_allclose(mjax.jit(f)(X), 9.0)
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(X), 6.0)
    np.testing.assert_allclose(mjax.jit(lambda x: mjax.jvp(f, (x,), (x,)))(X), (9.0, 18.0))
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(
        lambda m: m, (metres_p.bind(x),), (x,)))(X)
    assert jaxpr.out_avals == [Metres(), F]
    with pytest.raises(TypeError, match=r"whose tangents have type float32\[\]"):
        mjax.make_jaxpr(lambda x: mjax.jvp(
            length_p.bind, (metres_p.bind(x),), (metres_p.bind(x),)))(X)


def test_a_type_without_ir_values_and_tangents():
    def f(x):
        proof = prove_p.bind(x)
        return use_p.bind(lax.cond(x > 0, lambda p: p, lambda p: prove_p.bind(x), proof), x) * x

    np.testing.assert_allclose(mjax.jit(f)(X), 9.0)
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(X), 6.0)
    np.testing.assert_allclose(mjax.jit(mjax.grad(mjax.checkpoint(f)))(X), 6.0)
    step = lambda c, _: ((prove_p.bind(c[1]), use_p.bind(*c) * 2), None)
    g = mjax.jit(lambda x: lax.scan(step, (prove_p.bind(x), x), None, length=3)[0][1])
    np.testing.assert_allclose(g(X), 24.0)
    with pytest.raises(TypeError, match="values of type Proof .* be stacked by loops"):
        mjax.grad(g)(X)
    np.testing.assert_allclose(mjax.vmap(g)(jnp.ones(2)), [8.0, 8.0])


def test_shard_map():
    mesh = Mesh(np.array(mjax.devices()[:1]), ("i",))
    f = mjax.jit(mjax.shard_map(
        lambda x, y: by_const(pair(x[0], y)) + x, mesh=mesh,
        in_specs=(PartitionSpec("i"), PartitionSpec()), out_specs=PartitionSpec("i")))
    xs = np.full(1, 3, np.float32)
    np.testing.assert_allclose(f(xs, Y), [18.0])
    np.testing.assert_allclose(mjax.grad(lambda x, y: f(x, y).sum(), (0, 1))(xs, Y)[1], 3.0)
    with pytest.raises(TypeError, match=r"Pair\(float32\[\]\) does not have"):
        mjax.make_jaxpr(lambda x: mjax.shard_map(
            lambda p: first(p), mesh=mesh, in_specs=PartitionSpec("i"),
            out_specs=PartitionSpec("i"))(pair(x, x)))(X)


# ---- values outside of programs --------------------------------------------------------


@pytest.mark.parametrize("name", USES)
def test_values_enter_compiled_programs(name):
    p = mjax.jit(pair)(X, Y)
    assert mjax.typeof(p) == Pair(F)
    for f in (USES[name], mjax.jit(USES[name])):
        np.testing.assert_allclose(f(p), 15.0)
    np.testing.assert_allclose(mjax.jit(lambda x: USES[name](p) * x)(X), 45.0)  # closed over


def test_values_enter_and_leave_derivatives():
    p = pair(X, Y)
    for pull in (mjax.vjp(mjax.jit(product), p)[1],
                 mjax.jit(lambda ct: mjax.vjp(product, p)[1](ct))):
        (ct,) = pull(jnp.float32(1))
        np.testing.assert_allclose((first(ct), second(ct)), (5.0, 3.0))
    np.testing.assert_allclose(mjax.jvp(mjax.jit(product), (p,), (p,)), (15.0, 30.0))
    m = mjax.jit(metres_p.bind)(X)
    assert mjax.typeof(m) == Metres() and mjax.jit(length_p.bind)(m) == 3.0
    assert mjax.grad(lambda x: length_p.bind(mjax.jit(metres_p.bind)(x)) ** 2)(X) == 6.0


def test_values_among_others_with_options():
    @mjax.jit
    def swapped(p, proof, *, x):
        return {"p": pair(second(p), first(p)), "x": use_p.bind(proof, x), "proof": proof}

    for _ in range(2):
        outs = swapped(pair(X, Y), prove_p.bind(X), x=Y)
        assert (first(outs["p"]), second(outs["p"]), outs["x"]) == (5.0, 3.0, 5.0)
        assert mjax.typeof(outs["proof"]) == Proof()
    p = pair(X, Y)
    q = mjax.jit(lambda p: pair(first(p) + 1, second(p)), donate_argnums=0)(p)
    assert product(q) == 20.0 and all(part.is_deleted() for part in p.parts)
    with pytest.raises(TypeError, match=r"needs an array, but this is a value of type Pair\("):
        np.asarray(q)


# ---- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(("f", "match"), [
    (bare_p.bind, r"values of type .*Bare.* cannot be compiled: Bare does not define physical\(\)"),
    (lambda x: jnp.sin(pair(x, x)), r"Pair\(float32\[\]\)"),
    (lambda x: lax.scan(lambda c, p: (c, first(p)), 0.0, pair(x, x)), r"Pair\(float32\[\]\)"),
    (lambda x: lax.scan(lambda c, _: (c, bare_p.bind(x)), 0.0, None, length=2),
     r"values of type .*Bare.* stacked by loops"),
    (lambda x: mjax.grad(lambda p: product(p))(pair(x, x)), r"Pair\(float32\[\]\)"),
    (lambda x: mjax.vmap(lambda x: bare_p.bind(x), out_axes=0, axis_size=2, in_axes=None)(x),
     r"Bare.* does not have ndim")])
def test_refusals_name_the_type(f, match):
    with pytest.raises(TypeError, match=match):
        mjax.jit(f)(X)
