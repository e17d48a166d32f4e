"""Frames for extension authors: primitives that hold programs, and transformations of them."""

from __future__ import annotations

import ast
import math
import re
import textwrap

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.tracing import rule_errors
from mjax.errors import MissingRuleError, UnexpectedTracerError
from mjax_ext import core
from mjax_ext.core import primitives
from mjax_ext.interpreters import mlir, partial_eval

region_p = core.Primitive("region", multiple_results=True)
core.Frame(region_p, "program")


def evaluate(*args, program):
    return core.eval_jaxpr(program, program.consts, *args)


region_p.def_impl(evaluate)
mlir.register_lowering(region_p, mlir.lower_fun(evaluate, multiple_results=True))


def region(f):
    """The function as one equation."""
    return lambda *args: region_p.bind(*args, program=mjax.make_jaxpr(f)(*args))[0]


X = jnp.linspace(0.0, 1.0, 6).reshape(2, 3)
Y = jnp.linspace(1.0, 2.0, 6).reshape(2, 3)


def product(x, y):
    return jnp.sin(x) * y


TRANSFORMATIONS = {
    "evaluation": lambda f: f(X, Y),
    "jit": lambda f: mjax.jit(f)(X, Y),
    "grad": lambda f: mjax.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, Y),
    "grad of jit": lambda f: mjax.grad(lambda x, y: mjax.jit(f)(x, y).sum(), (0, 1))(X, Y),
    "grad of checkpoint": lambda f: mjax.grad(lambda x: mjax.checkpoint(f)(x, Y).sum())(X),
    "vmap": lambda f: mjax.vmap(f, (0, None))(X, Y),
    "vmap of grad": lambda f: mjax.vmap(mjax.grad(lambda x, y: f(x, y).sum()))(X, Y),
    "jvp": lambda f: mjax.jvp(f, (X, Y), (Y, X)),
    "linearize": lambda f: mjax.linearize(f, X, Y)[1](Y, X),
    "vjp": lambda f: mjax.vjp(f, X, Y)[1](Y),
    "linear_transpose": lambda f: mjax.linear_transpose(lambda y: f(X, y), Y)(X),
    "hessian": lambda f: mjax.hessian(lambda x: f(x, Y[0]).sum())(X[0]),
    "scan": lambda f: lax.scan(lambda c, x: (f(c, x), c), X, jnp.stack([Y, Y])),
    "cond": lambda f: lax.cond(True, f, product, X, Y),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_primitive_with_a_frame_has_every_transformation(name):
    found, expected = (mjax.tree.leaves(TRANSFORMATIONS[name](f)) for f in (
        region(product), product))
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, 1e-5, 1e-6)


BINDS = {
    "evaluation": lambda f, *args: f(*args), "jit": lambda f, *args: mjax.jit(f)(*args),
    "jvp": lambda f, *args: mjax.jvp(f, args, args), "make_jaxpr": lambda f, *args:
        mjax.make_jaxpr(f)(*args), "grad": lambda f, *args: mjax.grad(f)(*args),
    "vmap": lambda f, *args: mjax.vmap(lambda _: f(*args))(X)}


@pytest.mark.parametrize("name", BINDS)
def test_operands_that_the_program_does_not_take(name):
    program = mjax.make_jaxpr(lax.sin)(np.float32(1))
    f = lambda *args: region_p.bind(*args, program=program)[0]
    BINDS[name](f, 1.0)
    for args in (X,), (1.0, 1.0), (np.float16(1),):
        with pytest.raises(TypeError, match=(
                r"region of a program that takes float32\[\] applied to .*: the operands must")):
            BINDS[name](f, *args)


def test_transformations_transform_the_program():
    def names(jaxpr):
        return [e.primitive.name for e in jaxpr.eqns]

    jaxpr = mjax.make_jaxpr(mjax.vmap(region(product)))(X, Y)
    core.check_jaxpr(jaxpr)
    (eqn,) = jaxpr.eqns
    assert eqn.primitive is region_p and names(eqn.params["program"]) == ["sin", "mul"]
    for rule in ("jvp", "batch"):
        assert re.match(r"derived at .*frame\.py", region_p.rules()[rule])
    jaxpr = mjax.make_jaxpr(mjax.grad(lambda x: region(product)(x, 2.0)))(1.0)
    inner = [name for e in jaxpr.eqns if e.primitive is region_p
             for name in names(e.params["program"])]
    assert "cos" in inner


def test_a_program_gives_several_results():
    with pytest.raises(TypeError, match=r"frame for the primitive 'one'.*multiple_results=True"):
        core.Frame(core.Primitive("one"))


@pytest.mark.parametrize("f", [
    product, mjax.jit(product), region(product), mjax.checkpoint(product),
    lambda x, y: lax.cond(True, product, product, x, y),
    lambda x, y: lax.scan(lambda c, x: (c, product(*x)), 0.0, (x, y))[1],
], ids=["plain", "jit", "region", "checkpoint", "cond", "scan"])
def test_a_value_of_each_run_enters_and_leaves(f):
    def with_factors(jaxpr):
        """From `(inputs, factor)` to `(results, product)` of the results of `sin`."""
        def run(*args):
            *inputs, factor = args
            env, found = dict(zip(jaxpr.invars, inputs, strict=True)), factor
            for eqn in jaxpr.eqns:
                operands = [v.val if type(v) is core.Literal else env[v] for v in eqn.invars]
                if (frame := eqn.primitive.frame) is not None:
                    held = frame.again(frame.open(eqn.params)).transformed(
                        with_factors, [frame.each], [frame.each])
                    *outs, found = frame.runner(held)([*operands, factor])
                else:
                    outs = eqn.primitive.bind(*operands, **eqn.params)
                    if eqn.primitive is primitives.sin_p:
                        found = outs * factor
                env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs],
                               strict=True))
            return [*(env[v] for v in jaxpr.outvars), found]

        avals = [mjax.ShapeDtypeStruct(a.shape, a.dtype) for a in jaxpr.in_avals]
        shape = next(a.shape for a in avals if a.shape)
        return mjax.make_jaxpr(run)(*avals, mjax.ShapeDtypeStruct(shape, np.float32))

    jaxpr = with_factors(mjax.make_jaxpr(f)(X, Y))
    core.check_jaxpr(jaxpr)
    out, found = core.eval_jaxpr(jaxpr, jaxpr.consts, X, Y, 2 * Y)
    np.testing.assert_allclose(out, np.sin(X) * Y, 1e-6)
    np.testing.assert_allclose(found, 2 * np.sin(X) * Y, 1e-6)


# ---- two transformations, with one rule each -------------------------------------------


def flops(jaxpr):
    """Elements that a program computes, in the longest branch and one iteration of `while`."""
    total = 0
    for eqn in jaxpr.eqns:
        frame = eqn.primitive.frame
        if frame is None:
            total += sum(math.prod(v.aval.shape) for v in eqn.outvars)
        else:
            held = frame.open(eqn.params)
            total += (frame.times(held) or 1) * max(map(flops, held.jaxprs))
    return total


@mjax.custom_jvp
def halved(x):
    return x / 2.0


halved.defjvp(lambda primals, tangents: (halved(*primals), tangents[0] / 2.0))


@pytest.mark.parametrize("f, expected", [
    (lambda x: x * x + x, 12),
    (mjax.jit(lambda x: x * x + x), 12),
    (region(lambda x: x * x), 6),
    (mjax.checkpoint(lambda x: x * x + x), 12),
    (lambda x: lax.scan(lambda c, _: (c * c, c + c), x, None, length=5)[0], 60),
    (lambda x: lax.while_loop(lambda c: c[0, 0] > 9.0, lambda c: c * c + c, x), 12),
    # Four scalars make the index: slice, squeeze, gt, convert_element_type.
    (lambda x: lax.cond(x[0, 0] > 0.0, lambda x: x * x + x, lambda x: x, x), 12 + 4),
    (lambda x: region(lambda x: lax.scan(lambda c, _: (c * x, None), x, None, length=4)[0])(x), 24),
    (lambda x: halved(x) * x, 12),
])
def test_a_counter_reads_bodies(f, expected):
    assert flops(mjax.make_jaxpr(f)(X)) == expected


def with_errors(jaxpr):
    """From `(inputs, error)` to `(results, error)`: whether something was divided by zero."""

    def run(*args):
        *inputs, error = args
        env = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
        env.update(zip(jaxpr.invars, inputs, strict=True))

        def read(v):
            return v.val if type(v) is core.Literal else env[v]

        for eqn in jaxpr.eqns:
            operands, frame = list(map(read, eqn.invars)), eqn.primitive.frame
            if frame is not None:
                held = frame.again(frame.open(eqn.params)).transformed(
                    with_errors, [frame.threaded], [frame.threaded])
                *outs, error = frame.runner(held)([*operands, error])
            else:
                if eqn.primitive is primitives.div_p:
                    error = error | jnp.any(operands[1] == 0)
                outs = eqn.primitive.bind(*operands, **eqn.params)
            env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs],
                           strict=True))
        return [*map(read, jaxpr.outvars), error]

    avals = [mjax.ShapeDtypeStruct(a.shape, a.dtype) for a in jaxpr.in_avals]
    return mjax.make_jaxpr(run)(*avals, mjax.ShapeDtypeStruct((), bool))


def inverse(x):
    return 1.0 / x


@pytest.mark.parametrize("f", [
    inverse, mjax.jit(inverse), region(inverse), mjax.checkpoint(inverse),
    lambda x: lax.scan(lambda c, x: (c + inverse(x), c), x[0], x)[0],
    lambda x: lax.cond(x[0, 0] > 0.0, inverse, lambda x: x, x),
    lambda x: lax.while_loop(lambda c: c[0, 0] < 5.0, lambda c: c + inverse(x), x),
    lambda x: lax.while_loop(lambda c: inverse(c).sum() > 1.0, lambda c: c + 1.0, x),
    lambda x: mjax.vmap(lambda x: lax.while_loop(
        lambda c: c[0] < x[1] + 2.0, lambda c: c + inverse(x), x))(x),
    lambda x: region(mjax.jit(lambda x: lax.scan(
        lambda c, x: (c + mjax.checkpoint(inverse)(x), c), x[0], x)[0]))(x),
    mjax.grad(lambda x: region(inverse)(x).sum()),
], ids=["plain", "jit", "region", "checkpoint", "scan", "cond", "while",
        "condition", "elements", "nested", "grad"])
def test_a_transformation_adds_an_error_to_every_body(f):
    jaxpr = mjax.make_jaxpr(f)(Y)
    checked = with_errors(jaxpr)
    core.check_jaxpr(checked)
    for x, wanted in ((Y, False), (Y.at[1, 2].set(0.0), True)):
        *outs, error = core.eval_jaxpr(checked, checked.consts, x, False)
        assert bool(error) is wanted
        for actual, expected in zip(outs, mjax.tree.leaves(f(x)), strict=True):
            np.testing.assert_array_equal(actual, expected)


# ---- messages ----------------------------------------------------------------------------


@pytest.mark.parametrize("body", [(), ("program",)], ids=["no body", "body"])
@pytest.mark.parametrize("count", [0, 2, 5, None])
@pytest.mark.parametrize("rule", rule_errors.RULES)
def test_templates_of_missing_rules_are_python(rule, count, body):
    p = core.Primitive("region", multiple_results=bool(body))
    params = {"by": 2, **dict.fromkeys(body, mjax.make_jaxpr(lax.sin)(1.0))}
    with pytest.raises(MissingRuleError) as caught:
        p.missing(rule, operands=count, params=params)
    template = str(caught.value).partition("\n\n")[2].partition("    or, ")[0]
    ast.parse(textwrap.dedent(template))


def test_templates_name_operands_as_other_rules_do():
    p = core.Primitive("named operands", params={"by": int})
    p.def_abstract_eval(lambda price, tax, *, by: price)
    with pytest.raises(MissingRuleError, match=r"_lowering\(ctx, price, tax, \*, by\):"):
        p.missing("lowering", operands=2, params={"by": 1})
    p.def_impl(lambda ctx, cotangent, *, by: ctx)
    with pytest.raises(MissingRuleError, match=r"_transpose\(cotangent, price, tax, \*, by\):"):
        p.missing("transpose", operands=2, params={"by": 1})
    with pytest.raises(MissingRuleError, match=r"_lowering\(ctx, x, y, z, \*, by\):"):
        p.missing("lowering", operands=3, params={"by": 1})


def test_a_program_that_closes_over_a_traced_value_is_named():
    with pytest.raises(UnexpectedTracerError) as caught:
        mjax.grad(lambda w: region(lambda x: w * x)(2.0))(3.0)
    assert any("The program in its param 'program' closes over a value that is being traced. Make "
               "it an operand: bind(*program.consts, *operands," in note
               for note in caught.value.__notes__)
    assert "outside of the linearize trace" in str(caught.value)

    def lifted(w):
        program = mjax.make_jaxpr(lambda x: w * x)(2.0)
        return region_p.bind(*program.consts, 2.0,
                             program=partial_eval.convert_constvars_jaxpr(program))[0]
    assert float(mjax.grad(lifted)(3.0)) == 2.0


def test_a_frame_of_a_param_that_is_not_in_the_schema():
    p = core.Primitive("framed wrongly", multiple_results=True, params={"program": core.Jaxpr})
    with pytest.raises(TypeError, match=r"\(program: Jaxpr\) does not have 'body'"):
        core.Frame(p, "body")
    assert p.frame is None


def test_inline_of_another_number_of_operands():
    p = core.Primitive("inlined wrongly", multiple_results=True, params={"program": core.Jaxpr})
    core.Frame(p, "program")
    p.def_lowering(lambda ctx, *operands, program: ctx.inline(program, *operands, *operands))
    program = mjax.make_jaxpr(lax.sin)(1.0)
    says = r"1 input, of types ~float32\[\], was given 2 operands"
    with pytest.raises(TypeError, match=says):
        mjax.jit(lambda x: p.bind(x, program=program))(1.0)


def test_the_builder_refuses_what_does_not_fit():
    builder = core.JaxprBuilder()
    with pytest.raises(TypeError, match="JaxprBuilder.input takes a type, .* got a tuple of 1"):
        builder.input((3,))
    program = mjax.make_jaxpr(lax.sin)(np.float32(1))
    x = builder.input(mjax.typeof(X))
    with pytest.raises(TypeError, match="region of a program that takes float32.* applied to"):
        builder.apply(region_p, x, program=program)


def test_a_frame_is_for_a_primitive():
    with pytest.raises(TypeError, match="rules belong to primitives: 'region' of type str"):
        core.Frame("region", "program")


@pytest.mark.parametrize("program", [lambda x: x, None])
def test_bodies_are_programs(program):
    for bind in region_p.bind, mjax.jit(region_p.bind, static_argnames="program"):
        with pytest.raises(TypeError, match="its param 'program' must be a jaxpr, as mjax.make_"):
            bind(X, program=program)


def test_implementations_give_the_results_of_the_program():
    p = core.Primitive("doubling", multiple_results=True, params={"program": core.Jaxpr})
    core.Frame(p, "program")
    p.def_impl(lambda x, *, program: [x, x])
    with pytest.raises(TypeError, match="implementation of primitive 'doubling' .* 1 for 1 result"):
        p.bind(1.0, program=mjax.make_jaxpr(lax.sin)(1.0))


@pytest.mark.parametrize(("change", "text"), [
    (lambda held: None, "returned None; it must return a core.Held"),
    (lambda held: held._replace(body=lax.sin), "for the body; it must be a jaxpr"),
    (lambda held: held._replace(ins=()), r"returned .* for ins; .*each of 1 input of the program"),
    (lambda held: held._replace(outs=None), r"None for outs; .*each of 1 result of the program")])
def test_frames_give_programs(change, text):
    class Changed(core.Frame):
        def open(self, params):
            return change(super().open(params))

    p = core.Primitive("held as something else", multiple_results=True,
                       params={"program": core.Jaxpr})
    Changed(p, "program")
    with pytest.raises(TypeError, match=rf"(?s)Changed.open \(.*test_frames.py:\d+\), for the "
                       rf"primitive 'held as something else', .*{text}"):
        p.bind(X, program=mjax.make_jaxpr(lax.sin)(X))


def test_what_a_frame_raises_names_it():
    class Failing(core.Frame):
        def open(self, params):
            return {}["programme"]

    p = core.Primitive("not held", multiple_results=True, params={"program": core.Jaxpr})
    Failing(p, "program")
    with pytest.raises(KeyError) as caught:
        p.bind(X, program=mjax.make_jaxpr(lax.sin)(X))
    (note, *_) = caught.value.__notes__
    assert note.startswith("Raised in Failing.open (") and "'not held'.\nIt was applied at" in note
