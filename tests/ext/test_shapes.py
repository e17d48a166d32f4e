"""Small questions about values, sizes, shapes and types."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import export, lax
from mjax.errors import ConcretizationTypeError, InconclusiveDimensionOperation, JaxprTypeError
from mjax.sharding import Mesh, PartitionSpec
from mjax_ext import core
from mjax_ext.interpreters import xla

B, C = export.symbolic_shape("b, c")


def traced(f, wrap=mjax.jit, x=1.0):
    """Results of a function within a transformation."""
    found = []
    wrap(lambda x: found.append(f(x)) or x)(x)
    return found[0]


def test_values_that_are_known():
    assert core.is_concrete(3) and core.to_concrete_value(3) == 3
    jvp = lambda f: lambda x: mjax.jvp(f, (x,), (x,))[0]
    assert traced(core.is_concrete, jvp) and traced(core.to_concrete_value, jvp) == 1.0
    assert not traced(core.is_concrete) and traced(core.to_concrete_value) is None
    assert core.concrete_or_error(int, np.float32(2)) == 2 == core.concrete_or_error(None, 2)
    assert traced(lambda x: core.concrete_or_error(float, x), jvp) == 1.0
    with pytest.raises(ConcretizationTypeError, match=r"(?s)~float32\[\] while jit traces the "
                       r"function: the number of steps.*depends on its argument x"):
        traced(lambda x: core.concrete_or_error(int, x, "the number of steps"))
    with pytest.raises(ConcretizationTypeError, match="traces the function"):
        traced(lambda x: core.concrete_or_error(None, x))


def test_what_a_tracer_is_about():
    def inner(x):
        found = []
        mjax.jvp(lambda y: found.append(core.get_referent(y)) or y, (x,), (x,))
        mjax.vmap(lambda y: found.append(core.get_referent(y)) or y)(x[None])
        return found

    x = jnp.ones(2)
    first, batch = inner(x)
    assert first is x and batch.shape == (1, 2)
    assert traced(lambda x: core.get_referent(x) is x) and core.get_referent(3) == 3
    assert core.full_lower(x) is x and traced(lambda x: core.full_lower(x) is x)


def test_types():
    key = mjax.typeof(mjax.random.key(0))
    assert core.physical_aval(key) == core.ShapedArray((2,), "uint32")
    for aval in (core.ShapedArray((3,), "float32"), core.abstract_token):
        assert core.physical_aval(aval) is aval
    weak = mjax.typeof(1.0)
    assert core.raise_to_shaped(weak) is weak and core.raise_to_shaped(
        weak, False) == weak.strip_weak_type()
    assert core.raise_to_shaped(core.abstract_token, True) is core.abstract_token
    assert core.abstractify(1) == mjax.typeof(1)
    assert {np.ndarray, np.float32, np.bool_} <= core.array_types and int not in core.array_types
    assert isinstance(lax.create_token(), core.Token)
    assert mjax.typeof(lax.create_token()) is core.abstract_token
    assert isinstance(core.gensym()(weak), core.Var)


def test_types_of_users_values():
    class Celsius:
        def __init__(self, kelvin):
            self.kelvin = kelvin

    class Cooler(Celsius):
        pass

    with pytest.raises(TypeError, match="Celsius is not a valid array"):
        mjax.typeof(Celsius(1.0))
    core.pytype_aval_mappings[Celsius] = lambda c: mjax.typeof(c.kelvin)
    try:
        assert mjax.typeof(Celsius(1.0)) == mjax.typeof(1.0) == core.get_aval(Cooler(1.0))
        assert core.valid_jaxtype(Cooler(1.0))
        assert core.pytype_aval_mappings[np.ndarray](np.ones(2)).shape == (2,)
    finally:
        del core.pytype_aval_mappings[Celsius]
    assert xla.apply_primitive(core.primitives.neg_p, 1.0) == -1.0


def test_errors_are_those_of_checks():
    x = core.Var(mjax.typeof(1.0))
    with pytest.raises(core.JaxprTypeError, match="used but not bound"):
        core.check_jaxpr(core.Jaxpr([], [], [x], []))
    assert core.JaxprTypeError is JaxprTypeError and issubclass(JaxprTypeError, TypeError)
    with pytest.raises(core.InconclusiveDimensionOperation):
        bool(B >= 2)
    assert core.InconclusiveDimensionOperation is InconclusiveDimensionOperation


def test_contexts_of_equations_are_alike():
    (eqn,) = mjax.make_jaxpr(lax.sin)(1.0).eqns
    assert eqn.ctx == core.JaxprEqnContext() == eqn.replace(ctx=core.JaxprEqnContext()).ctx
    assert hash(eqn.ctx) == hash(core.JaxprEqnContext()) and eqn.ctx != 3
    assert eqn.ctx.compute_type is None and eqn.ctx.xla_metadata is None
    again = core.new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, eqn.params, eqn.effects,
                               eqn.source_info, eqn.ctx)
    assert again == eqn._replace(source=again.source)
    with eqn.ctx.manager, eqn.ctx.manager:
        assert mjax.make_jaxpr(lax.cos)(1.0).eqns[0].ctx == eqn.ctx


# ---- sizes -------------------------------------------------------------------------------


def test_shapes():
    assert core.canonicalize_shape((np.int64(2), 3)) == (2, 3) == core.canonicalize_shape([2, 3])
    assert core.canonicalize_shape(4) == (4,) and core.canonicalize_shape((B, 1)) == (B, 1)
    assert all(type(n) is int for n in core.canonicalize_shape((np.int64(2), True)))
    for wrong in ((2.5,), ("2",), (-1,)):
        with pytest.raises(TypeError, match="shapes must") as caught:
            core.canonicalize_shape(wrong, "the result of mine")
        assert caught.value.__notes__[0] == "The shape is for the result of mine."
    with pytest.raises(TypeError):
        traced(lambda x: core.canonicalize_shape((x,)), x=1)


def test_sizes_that_are_known():
    assert core.is_constant_dim(np.int32(2)) and core.is_constant_shape((2, 3))
    for size in (B, B + 1, 2.5, "2"):
        assert not core.is_constant_dim(size) and not core.is_constant_shape((1, size))
    assert traced(core.is_constant_dim, x=1) is False


def test_sizes_that_are_equal_for_all_values_of_symbols():
    for x, y, equal in ((2, 2, True), (B, B, True), (B * 2, B + B, True), (B, C, False),
                        (B, 2, False), (2, 3, False), (B, 0, False)):
        assert core.definitely_equal(x, y) is equal is core.definitely_equal_shape((1, x), [1, y])
    assert not core.definitely_equal_shape((1,), (1, 1))
    assert traced(lambda x: core.definitely_equal(x, x)), "one tracer is equal to itself"
    assert not traced(lambda x: core.definitely_equal(x, x + 1))
    assert core.max_dim(2, 3) == 3 and core.min_dim(B + 1, B) is B
    assert str(core.max_dim(B, C)) == "max(b, c)"


def test_sizes_as_values():
    assert core.dimension_as_value(3) == 3 and core.dim_constant(3) == 3
    assert type(core.dim_constant(3)) is np.int32
    with mjax.enable_x64(True):
        assert type(core.dim_constant(3)) is np.int64
    exported = export.export(mjax.jit(lambda x: core.dimension_as_value(x.shape[0]) + 1))(
        mjax.ShapeDtypeStruct((B,), "float32"))
    assert exported.call(np.ones(5, np.float32)) == 6


# ---- device variance ---------------------------------------------------------------------


def test_values_are_cast_to_vary_alike():
    mesh = Mesh(np.array(mjax.devices()[:1]), ("i",))
    found = []

    def f(x, y):
        found.append([mjax.typeof(v).varying for v in core.standard_insert_pvary(x, y)])
        with pytest.raises(TypeError, match="the operands of mine vary along different mesh axes"):
            core.standard_vma_rule("mine", mjax.typeof(x), mjax.typeof(y))
        x, y = core.auto_insert_reshard(x, y)
        found.append(core.standard_vma_rule("mine", mjax.typeof(x), core.abstract_token))
        return x * y

    P = PartitionSpec
    mjax.shard_map(f, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))(jnp.ones(2), 2.0)
    assert found == [[{"i"}, {"i"}], {"i"}]
    assert core.standard_insert_pvary() == [] and core.standard_vma_rule("none") == frozenset()
    assert core.auto_insert_reshard.__name__ == "auto_insert_reshard"


def test_sizes_of_numpy_and_what_is_no_size():
    for f, sign in ((core.max_dim, "max"), (core.min_dim, "min")):
        for seven in (np.int32(7), np.array(7), jnp.int32(7)):
            assert f(B, seven) is f(B, 7) and str(f(seven, B)) == f"{sign}(7, b)"
        for wrong in (7.5, "a", None):
            with pytest.raises(TypeError, match=f"{sign}_dim: a size must be an int or a symbolic"):
                f(B, wrong)
    assert B ** np.int32(2) is B * B
    for wrong in (2.5, "a", None):
        with pytest.raises(TypeError, match="dimension_as_value takes a size, .*; got"):
            core.dimension_as_value(wrong)
    assert core.dimension_as_value(np.int32(3)) == 3 == traced(lambda x: core.dimension_as_value(3))


def test_axes_of_types():
    row, matrix = (core.ShapedArray(shape, np.dtype(np.float32)) for shape in ((2,), (2, 3)))
    assert core.unmapped_aval(3, np.int64(1), row) == matrix
    assert core.mapped_aval(np.int64(3), np.int64(1), matrix) == row
    token = core.abstract_token
    assert core.unmapped_aval(3, 0, token) is token is core.mapped_aval(3, 0, token)
    for axis in (-1, 2, 5):
        with pytest.raises(IndexError, match=rf"new axis at 0 to 1, not at {axis}"):
            core.unmapped_aval(3, axis, row)
    for f in (core.mapped_aval, core.unmapped_aval):
        with pytest.raises(TypeError, match=f"{f.__name__}: the axis must be an int or None, got"):
            f(3, 1.0, matrix)
        with pytest.raises(TypeError, match=f"{f.__name__} takes a type, .* got 3"):
            f(3, 0, 3)
