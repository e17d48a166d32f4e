"""custom_vjp: mistakes of its users."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.ir.types import ShapedArray
from mjax.custom_derivatives import SymbolicZero
from tests.engine.control.custom_programs import XS, X, product, same, with_rules

AROUND = [same, mjax.jit, lambda f: mjax.vmap(mjax.jit(f))]


def pull_ones(f, *args):
    out, pull = mjax.vjp(f, *args)
    return pull(mjax.tree_util.tree_map(lambda o: np.ones(o.shape, o.dtype), out))


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("fwd", "text"), [
    (lambda x: x, r"must return a pair \(output, residuals\), but returned"),
    (lambda x: (x, x, x), r"must return a pair \(output, residuals\), but returned a tuple of 3"),
    (lambda x: (x, {"a": ["text"]}), r"residual\['a'\]\[0\] is not a valid array: 'text'"),
    (lambda x: (x, jnp.sin), "residual is not a valid array: <function sin"),
    (lambda x: ({"out": "text"}, x), r"output\['out'\] is not a valid array: 'text'"),
])
def test_forward_passes_that_give_something_else(fwd, text, around):
    f = with_rules(fwd, lambda r, ct: (ct,))
    with pytest.raises(TypeError, match="the fwd rule <lambda> at .*py:.* of custom_vjp function "
                       f"<lambda> at .*py:.*{text}"):
        pull_ones(around(f), X)


@pytest.mark.parametrize(("fwd", "text"), [
    (lambda x: ((x,), x),
     r"output: float32\[3\] in the function's output, missing in the first result of the fwd rule"),
    (lambda x: (x[:2], x), r"output: float32\[3\] in .*, float32\[2\] in the first result"),
    (lambda x: (x.astype("float16"), x), r"float32\[3\] in .*, float16\[3\] .*cast with .astype"),
])
def test_forward_passes_with_another_output_than_the_function(fwd, text):
    f = with_rules(fwd, lambda r, ct: (ct,))
    with pytest.raises(TypeError, match="the fwd rule of custom_vjp function <lambda> at .* must "
                       f"return the function's output as its first result(?s:.)*{text}"):
        pull_ones(mjax.jit(f), X)


TREE = {"a": X, "b": (XS, np.float32(1))}
ZEROS = {"a": 0 * X, "b": (0 * XS, np.float32(0))}


@pytest.mark.parametrize("around", AROUND[:2])
@pytest.mark.parametrize(("result", "text"), [
    (X, r"output\[0\]\['a'\]: missing; the argument has type float32\[3\]"),
    ((), r"output\[0\]\['b'\]\[0\]: missing; the argument has type float32\[4,3\]"),
    (None, r"the arguments have the tree structure PyTree.*\n  the results PyTreeDef\(None\)"),
    ((ZEROS, X), r"output\[1\]: .* of type .*\[3\], but no argument has this path"),
    (({"a": X},), r"output\[0\]\['b'\]\[0\]: missing; .*\n  output\[0\]\['b'\]\[1\]: missing"),
    (({"a": X, "b": X},), r"output\[0\]\['b'\]: .* of type .*\[3\], but no argument"),
    (({"a": X, "b": None, "c": X},), r"\n  output\[0\]\['c'\]: .* of type .*\[3\], but no argumen"),
])
def test_backward_passes_of_another_structure(result, text, around):
    f = with_rules(lambda d: (d["a"], None), lambda r, ct: result, lambda d: d["a"])
    with pytest.raises(TypeError, match="the bwd rule <lambda> at .*py:.* of custom_vjp function "
                       "<lambda> at .* must return a tuple with a cotangent for each argument, "
                       f"in the argument's tree structure(?s:.)*{text}"):
        pull_ones(around(f), TREE)


@pytest.mark.parametrize("around", AROUND[:2])
@pytest.mark.parametrize(("leaf", "error", "text"), [
    (X, ValueError, r"of type float32\[3\], and the argument of type float32\[4,3\]"),
    (XS.astype("float16"), ValueError, r"of type float16\[4,3\], .* float32\[4,3\]. Cast with"),
    (XS.astype("int32"), ValueError, r"of type int32\[4,3\], .* float32\[4,3\]. Cast with"),
    ("text", TypeError, r"'text', and the argument of type float32\[4,3\]"),
])
def test_backward_passes_with_other_types(leaf, error, text, around):
    f = with_rules(lambda d: (d["a"], None), lambda r, ct: ({"a": ct, "b": (leaf, None)},),
                   lambda d: d["a"])
    with pytest.raises(error, match="the bwd rule <lambda> at .*py:.* of custom_vjp function "
                       r"<lambda> at .* must return cotangents of the types of its arguments, but "
                       rf"output\[0\]\['b'\]\[0\] is {text}"):
        pull_ones(around(f), TREE)


def test_rules_with_other_arguments():
    f = with_rules(lambda x: (x, None), lambda r, ct: (ct, ct), lambda x, y=1.0: x)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        mjax.grad(f)(1.0)
    f = with_rules(lambda x: (x, None), lambda ct: (ct,))
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        mjax.grad(f)(1.0)


def test_rules_that_forget_what_nondiff_argnums_gives():
    @partial(mjax.custom_vjp, nondiff_argnums=(0,))
    def f(n, x):
        return x * n

    @partial(mjax.custom_jvp, nondiff_argnums=(0,))
    def g(n, x):
        return x * n

    g.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    for call, fwd, bwd, text in [
            (f, lambda n, x: (x, None), lambda res, ct: (ct,), "bwd rule .* 1 values of nondiff"),
            (f, lambda x: (x, None), lambda n, res, ct: (ct,), "fwd rule .* all 2 arguments"),
            (g, None, None, "jvp rule .* 1 values of nondiff_argnums, the primals and the tang")]:
        f.defvjp(fwd or (lambda n, x: (x, None)), bwd or (lambda n, res, ct: (ct,)))
        with pytest.raises(TypeError) as info:
            mjax.grad(lambda x, call=call: call(2, x))(1.0)
        assert any(re.search(text, note) for note in info.value.__notes__), info.value.__notes__


def test_there_are_no_rules():
    @mjax.custom_vjp
    def f(x):
        return x

    for g in (f, mjax.jit(f), mjax.grad(f)):
        with pytest.raises(AttributeError, match="custom_vjp function f at .* has no rules yet: "
                           "give it some with f.defvjp"):
            g(1.0)


def test_definitions_that_are_refused():
    with pytest.raises(TypeError, match="custom_vjp expects a function, got 3 of type int"):
        mjax.custom_vjp(3)
    f = mjax.custom_vjp(product)
    for rules in ((3, product), (product, 3)):
        with pytest.raises(TypeError, match="defvjp expects a function, got 3"):
            f.defvjp(*rules)
    with pytest.raises(ValueError, match="nondiff_argnums has 5, but product takes 2 positional"):
        mjax.custom_vjp(product, nondiff_argnums=5)
    f.defvjp(lambda x, y: (x, y), lambda r, ct: (ct, ct))
    with pytest.raises(TypeError, match=r"custom_vjp of product: argument\[1\] is not a valid"):
        f(1.0, "text")


@pytest.mark.parametrize(("shape", "dtype"), [((2,), "float32"), ((), "float32"),
                                              ((3,), "float16"), ((3,), "int32")])
def test_symbolic_zeros_of_another_type_are_refused(shape, dtype):
    x = np.float32([1, 2, 3])

    def gradient(*of):
        f = mjax.custom_vjp(lambda x: 2 * x)
        f.defvjp(lambda x: (2 * x.value, None), lambda res, ct: (SymbolicZero(ShapedArray(*of)),),
                 symbolic_zeros=True)
        return mjax.grad(lambda x: f(x).sum())(x)

    np.testing.assert_array_equal(gradient((3,), np.dtype("float32")), [0, 0, 0])
    with pytest.raises(ValueError, match="must return cotangents of the types of its arguments"):
        gradient(shape, np.dtype(dtype))


@mjax.tree_util.register_pytree_node_class
class NeverNone:
    """A container that asks for a value."""

    def __init__(self, value):
        assert value is not None
        self.value = value

    def tree_flatten(self):
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_containers_that_refuse_none():
    f = mjax.custom_vjp(lambda c, x: NeverNone(c.value * x))
    f.defvjp(lambda c, x: (NeverNone(c.value * x), (c, x)),
             lambda res, ct: (NeverNone(ct.value * res[1]), ct.value * res[0].value))
    g = lambda c, x: f(c, x).value
    for how in (mjax.grad(g, (0, 1)), mjax.jit(mjax.grad(g, (0, 1)))):
        of_c, of_x = how(NeverNone(2.0), 3.0)
        assert of_c.value == 3 and of_x == 2
    xs = np.float32([1, 2])
    of_c, of_x = mjax.vmap(mjax.grad(g, (0, 1)), (NeverNone(0), None))(NeverNone(xs), 3.0)
    np.testing.assert_array_equal(of_c.value, [3, 3])
    np.testing.assert_array_equal(of_x, xs)
