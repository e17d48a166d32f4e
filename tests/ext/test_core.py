"""mjax_ext.core: the record, the registry, jaxprs by hand, the list of primitives."""

from __future__ import annotations

import functools
import gc
import importlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest

import mjax
import mjax_ext
from mjax import lax
from mjax._engine.tracing.primitive import registry
from mjax.errors import JaxprTypeError
from mjax_ext import core
from mjax_ext.core import primitives
from mjax_ext.interpreters import mlir, partial_eval, xla

X = np.arange(3, dtype=np.float32)
F3 = core.ShapedArray((3,), "float32")


def modules():
    """Those of the head."""
    found = [importlib.import_module(m.name) for m in
             pkgutil.walk_packages(mjax_ext.__path__, "mjax_ext.")
             if not m.name.startswith(("mjax_ext.v", "mjax_ext._generations"))]
    return [m for m in found if hasattr(m, "__all__")]


# ---- the surface -------------------------------------------------------------------------


#: Names that JAX has in several modules, some of them for different things, and a function whose
#: fixture for pytest has its name.
IN_SEVERAL = {"MeshAxisName", "Token", "Value", "abstract_token", "abstractify", "add_jaxvals_p",
              "check_primitive", "compute_on", "custom_lin_p", "pytype_aval_mappings",
              "register_exclusion", "safe_map", "safe_zip", "shaped_abstractify", "threefry2x32_p",
              "upstream_dialects"}


#: Names of `interpreters.ad` that are others than mjax's, and one that JAX has in `core` too.
OF_FLAT_FUNCTIONS = {"jvp", "linear_transpose", "linearize", "new_ref", "vjp"}


def test_every_name_is_there_and_has_one_home():
    homes = {}
    for module in modules():
        assert len(set(module.__all__)) == len(module.__all__), module.__name__
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
            homes.setdefault(name, []).append(module.__name__)
    assert {name for name, where in homes.items() if len(where) > 1} == IN_SEVERAL
    assert set(homes) & set(mjax.__all__) == OF_FLAT_FUNCTIONS


REGISTERED = """
import importlib, pkgutil, mjax
for module in pkgutil.walk_packages(mjax.__path__, "mjax."):
    if not module.name.endswith("treescope"):  # which only treescope loads
        importlib.import_module(module.name)
from mjax._engine.tracing.primitive import registry
from mjax_ext.core import primitives
listed = {getattr(primitives, name) for name in primitives.__all__}
assert set(registry) == listed, {p.name for p in set(registry) ^ listed}
"""


def test_primitives_are_all_listed():
    """In a process of its own, where nobody else has registered any."""
    subprocess.run([sys.executable, "-c", REGISTERED], check=True)


def test_primitives_have_the_names_of_jax():
    assert primitives.sin_p is lax.sin_p and primitives.add_jaxvals_p.name == "add_any"
    for name in primitives.__all__:
        p = getattr(primitives, name)
        assert isinstance(p, core.Primitive) and name.endswith("_p"), name
    assert len(set(primitives.__all__)) == len({getattr(primitives, n) for n in primitives.__all__})


def test_importing_loads_no_mlir_and_no_primitives_module():
    code = ("import sys, mjax_ext.core, mjax_ext.interpreters.ad, mjax_ext.interpreters.mlir\n"
            "loaded = [m for m in sys.modules if m == 'jaxlib.mlir.ir' or m == 'jax']\n"
            "assert not loaded, loaded\n"
            "assert 'mjax_ext.core.primitives' not in sys.modules\n"
            "assert mjax_ext.core.primitives.sin_p.name == 'sin'")
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- the record --------------------------------------------------------------------------


def test_registry_is_weak():
    p = core.Primitive("fleeting")
    assert p in registry
    before = len(registry)
    del p
    gc.collect()
    assert len(registry) < before


def test_an_implementation_takes_and_gives_what_it_likes():
    p = core.Primitive("concat")
    p.def_impl(lambda a, b: a + b)
    assert p.bind("ab", "cd") == "abcd"  # no abstract evaluation, so nothing to compare with


def test_rules_says_which_exist_where_and_which_were_derived():
    p = core.Primitive("half")
    assert set(p.rules().values()) == {
        "missing", "default", "default: all unknown if an operand is",
        "default: dropped if unused and without effects", "default: repeated as it is",
        "default: by the abstract evaluation", "default: operands vary alike",
        "default: one equation",
        "default: no devices wait for each other"}
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: lax.div(x, 2.0), multiple_results=False))
    p.def_jvp(functools.partial(lambda ps, ts: (p.bind(*ps), p.bind(*ts))))
    rules = p.rules()
    assert "test_core.py:" in rules["abstract_eval"]
    assert rules["impl"] == "derived from the lowering"
    assert rules["linearize"] == "derived from jvp"
    assert rules["lowering[any]"].startswith("derived from ") and "test_core" in rules[
        "lowering[any]"]
    assert "test_core.py:" in rules["jvp"]
    assert rules["batch"] == "missing"
    assert re.search(r"^lowering\[any\] +derived from", repr(rules), re.MULTILINE)
    np.testing.assert_allclose(p.bind(X), X / 2)


def test_writing_a_rule_replaces_a_derived_one():
    p = core.Primitive("p")
    p.define("jvp", lambda ps, ts: None)
    p.derived.add("jvp")
    assert p.rules()["jvp"].startswith("derived at")
    p.def_jvp(lambda ps, ts: None)
    assert not p.rules()["jvp"].startswith("derived")


def test_a_lowering_may_give_one_value():
    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: x)
    assert mlir.register_lowering(p, lambda ctx, x: mlir.hlo.NegOp(x).result, platform="cpu")
    np.testing.assert_array_equal(p.bind(X), -X)
    np.testing.assert_array_equal(mjax.jit(lambda x: p.bind(p.bind(x)))(X), X)


def test_platforms_that_are_none():
    with pytest.raises(NotImplementedError, match="'p' is for platform 'foo'.*Platforms: cpu, cu"):
        mlir.register_lowering(core.Primitive("p"), lambda ctx, x: [x], platform="foo")


def test_a_rule_that_is_written_again_takes_effect():
    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, lambda ctx, x: [x])
    np.testing.assert_array_equal(p.bind(X), X)
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.NegOp(x).results)
    np.testing.assert_array_equal(p.bind(X), -X)
    p.def_abstract_eval(lambda x: core.ShapedArray(x.shape, np.int32))
    mlir.register_lowering(p, mlir.lower_fun(
        lambda x: lax.convert_element_type(x, np.int32), multiple_results=False))
    assert p.bind(X).dtype == np.int32


def test_apply_primitive_compiles_the_lowering():
    p = core.Primitive("twice")
    p.def_impl(functools.partial(xla.apply_primitive, p))
    p.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.AddOp(x, x).results)
    assert isinstance(p.bind(X), mjax.Array)
    np.testing.assert_array_equal(p.bind(X), 2 * X)


def test_multiple_results():
    p = core.Primitive("both", multiple_results=True)
    p.def_abstract_eval(lambda x: [x, core.ShapedArray((), x.dtype)])
    mlir.register_lowering(p, mlir.lower_fun(lambda x: [lax.neg(x), lax.reduce_sum(x, (0,))]))
    for run in (p.bind, mjax.jit(p.bind)):
        a, b = run(X)
        np.testing.assert_array_equal(a, -X)
        assert b.shape == ()
        assert float(b) == 3


def test_a_primitive_can_be_a_static_argument_and_its_bind_jitted():
    p = core.Primitive("p")
    p.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.NegOp(x).results)
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), -X)
    apply = mjax.jit(lambda q, x: q.bind(x), static_argnums=0)
    np.testing.assert_array_equal(apply(p, X), -X)
    np.testing.assert_allclose(apply(lax.sin_p, X), np.sin(X), rtol=1e-6)


# ---- jaxprs ------------------------------------------------------------------------------


def test_builder():
    builder = core.JaxprBuilder()
    x = builder.input(F3)
    big = np.float32([1, 2, 3])
    y = builder.apply(primitives.mul_p, builder.apply(primitives.sin_p, x), big)
    (z,) = [builder.apply(primitives.add_p, y, 2.0)]
    jaxpr = builder.build(z, x, 1.0)
    core.check_jaxpr(jaxpr)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["sin", "mul", "add"]
    assert len(jaxpr.consts) == 1
    value, same, one = core.eval_jaxpr(jaxpr, jaxpr.consts, X)
    np.testing.assert_allclose(value, np.sin(X) * big + 2, rtol=1e-6)
    np.testing.assert_array_equal(same, X)
    assert one == 1.0
    with pytest.raises(TypeError, match="reduce_sum needs a numeric operand"):
        builder.apply(primitives.reduce_sum_p, np.zeros(2, bool), axes=(0,))


def test_variables_of_other_builders_are_refused():
    one, other = core.JaxprBuilder(), core.JaxprBuilder()
    x = one.input(F3)
    with pytest.raises(ValueError,
                       match=r"build: result 0, of type float32\[3\], is a variable of"):
        other.build(x)
    y = other.apply(primitives.mul_p, other.input(F3), x)
    with pytest.raises(ValueError, match=r"build: operand 1 of equation 0 \(mul\)"):
        other.build(y)


def test_jaxprs_by_hand():
    x, y = core.Var(F3), core.Var(F3)
    eqn = core.new_jaxpr_eqn([x], [y], primitives.neg_p, {})
    jaxpr = core.Jaxpr([], [x], [y], [eqn])
    core.check_jaxpr(jaxpr)
    assert "test_core" in mjax.make_jaxpr(lax.sin)(X).pretty_print(source_info=True)
    (out,) = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, []))(X)
    np.testing.assert_array_equal(out, -X)
    wrong = core.Jaxpr([], [x], [y], [core.new_jaxpr_eqn(
        [x], [core.Var(F3)], primitives.neg_p, {})])
    with pytest.raises(JaxprTypeError, match="not bound"):
        core.check_jaxpr(wrong)


def test_inner_jaxprs_are_found():
    jaxpr = mjax.make_jaxpr(mjax.jit(mjax.jit(lax.sin)))(X)
    (inner,) = core.subjaxprs(jaxpr)
    (again,) = core.jaxprs_in_params(inner.eqns[0].params)
    assert again.eqns[0].primitive is primitives.sin_p


def test_constants_of_programs_and_of_those_inside():
    c, d = np.arange(3.0, dtype="float32"), np.arange(2)
    inner = mjax.jit(lambda y: (y + c, mjax.numpy.asarray(d)))
    found = core.jaxpr_const_args(mjax.make_jaxpr(lambda x: inner(x * c)[0])(X))
    assert [aval for _, aval in found] == [F3, core.ShapedArray((2,), "int32")]
    np.testing.assert_array_equal(found[0][0], c)
    assert core.jaxpr_const_args(mjax.make_jaxpr(lax.sin)(X)) == []


def test_names_of_other_modules():
    assert core.JaxprDebugInfo is core.DebugInfo and core.ConcretizationTypeError is (
        mjax.errors.ConcretizationTypeError)
    assert core.safe_map is mjax_ext.util.safe_map and core.safe_zip is mjax_ext.util.safe_zip
    assert core.shaped_abstractify is core.abstractify and core.new_ref is mjax.new_ref
    assert mjax_ext.ffi.ffi_call is mjax.ffi.ffi_call


def test_programs_of_plugins():
    programs = mjax_ext.ifrt_programs
    assert isinstance(programs.make_plugin_program("program"), programs.ifrt_programs.Program)
    assert isinstance(programs.make_plugin_compile_options(),
                      programs.ifrt_programs.CompileOptions)


def test_types():
    assert core.get_aval(X) is F3
    assert core.mapped_aval(3, 0, F3) is core.ShapedArray((), "float32")
    assert core.unmapped_aval(2, 1, F3).shape == core.unmapped_aval(2, 1, F3, None).shape == (3, 2)
    assert core.mapped_aval(3, None, F3) is F3 is core.unmapped_aval(7, None, F3)
    with pytest.raises(ValueError, match=r"float32\[3\] has no axis 0 of size 4"):
        core.mapped_aval(4, 0, F3)
    assert core.primal_dtype_to_tangent_dtype(np.int32) == F3.update(
        dtype=np.int32).to_tangent().dtype
    assert core.primal_dtype_to_tangent_dtype("bfloat16") == np.dtype("bfloat16")
    assert core.valid_jaxtype(1.0) and not core.valid_jaxtype("one")
    assert isinstance(F3, core.AbstractValue)


def test_types_are_not_operands_of_compiled_programs():
    # Before jaxlib 0.8.1 constants are arguments, and are refused when the program runs.
    text = "ShapeDtypeStruct.*( type of an array and no value|only where nothing is computed)"
    for shape in ((3,), ()):
        struct = mjax.ShapeDtypeStruct(shape, np.float32)
        with pytest.raises(TypeError, match=text):
            mjax.jit(lambda x, s=struct: primitives.add_p.bind(x, s))(np.ones(shape, np.float32))


@pytest.mark.parametrize("call, text", [
    (lambda: core.eval_jaxpr(3, [], 1.0), "eval_jaxpr takes a jaxpr, .*; got 3"),
    (lambda: core.check_jaxpr(3), "check_jaxpr takes a jaxpr, .*; got 3"),
    (lambda: core.jaxpr_as_fun(3), "jaxpr_as_fun takes a jaxpr, .*; got 3"),
    (lambda: core.jaxpr_const_args(3), "jaxpr_const_args takes a jaxpr, .*; got 3"),
    (lambda: core.ClosedJaxpr(3, []), "Jaxpr takes a jaxpr and the values of its constants, or"),
    (lambda: core.JaxprBuilder().apply(3, 1.0), "3 of type int is not an mjax_ext.core.Primitive"),
    (lambda: partial_eval.partial_eval_jaxpr(3, [True]), "partial_eval_jaxpr takes a jaxpr"),
    (lambda: partial_eval.partial_eval_jaxpr(mjax.make_jaxpr(lax.sin)(1.0), True),
     "partial_eval_jaxpr: unknown must be a list of bools, got True"),
])
def test_what_is_no_program_is_refused_by_name(call, text):
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize("pair, error, text", [
    (("i", -1), ValueError, "size of axis 'i' must not be negative, got -1"),
    (("i", 2.5), TypeError, "size of axis 'i' must be an int, got 2.5"),
    (([], 2), TypeError, "unhashable"),
    (("i",), TypeError, "takes pairs of a name and a size"),
])
def test_axes_that_do_not_exist_are_not_entered(pair, error, text):
    with pytest.raises(error, match=text), core.extend_axis_env_nd([pair]):
        pass
    with core.extend_axis_env_nd([("i", np.int64(2))]):
        assert core.get_axis_env().axis_size("i") == 2
