"""shard_map: the modes that check less or more, and what XLA's regions do not take."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjaxlib_shim.gates import FFI_CALLBACKS

from .cut_programs import CUT, PROGRAMS, WHOLE, W, X
from .mapped import WAYS, P, loss, same, sharded, simulated

# ---- modes -----------------------------------------------------------------------------


def test_gradients_that_were_measured_wrong():
    p = mjax_ext_double()
    w, x = np.float32(1.0), np.arange(8, dtype="float32")

    def g(w, x):
        return lax.psum(p.bind(w * x).sum(), "i")

    def h(w, x):
        return lax.psum((p.bind(w * x) * x).sum(), "i")

    same(mjax.grad(sharded(g, (WHOLE, CUT), WHOLE))(w, x), np.float32(2 * x.sum()))
    same(mjax.grad(sharded(h, (WHOLE, CUT), WHOLE))(w, x), np.float32(2 * (x * x).sum()))
    ws = np.ones(2, "float32")
    same(mjax.grad(lambda w: sharded(lambda w, x: p.bind(w * x), (WHOLE, CUT), CUT)(w, x).sum())(
        ws), 2 * x.reshape(4, 2).sum(0))
    with pytest.raises(ValueError, match=r"It is the result of double_for_shards at"):
        sharded(lambda x: p.bind(x), CUT, WHOLE)(x)


def mjax_ext_double():
    """x * 2, with rules as the tutorial for authors of primitives has them."""
    from mjax_ext.core import Primitive, ShapedArray
    from mjax_ext.interpreters import ad, mlir

    p = Primitive("double_for_shards")
    p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    ad.primitive_transposes[p] = lambda ct, x: [p.bind(ct)]
    return p


def test_what_may_differ_is_refused():
    with pytest.raises(ValueError, match="devices may hold different values"):
        sharded(lambda x: x * 2, CUT, WHOLE)(X)

    def branches(x):
        return lax.cond(x[0, 0] > 0, lambda: 1.0, lambda: 2.0)

    with pytest.raises(ValueError, match="It is the result of cond at"):
        sharded(branches, CUT, WHOLE)(X)


@pytest.mark.parametrize("program", ["data parallel", "row parallel", "same everywhere",
                                     "both axes"])
def test_unchecked_derivatives_are_those_of_the_checked(program):
    f, in_specs, out_specs = PROGRAMS[program]
    for way in ("value", "grad", "jvp"):
        found = WAYS[way](sharded(f, in_specs, out_specs, check_vma=False))(W, X)
        same(found, WAYS[way](simulated(f, in_specs, out_specs))(W, X))


def test_unchecked_derivatives_inside_follow_the_old_convention():
    """Every device's cotangent of a sum is summed too: the axis' size too much."""
    def f(x):
        return mjax.grad(lambda x: lax.psum(x * x, "i").sum())(x)

    same(sharded(f, CUT, CUT, check_vma=False)(X), 2 * X * 4)
    same(sharded(f, CUT, CUT)(X), 2 * X)


def test_unchecked_takes_one_devices_value():
    x = np.arange(8, dtype="float32")
    assert sharded(lambda x: x, CUT, WHOLE, check_vma=False)(x).shape == (2,)

    def f(x):
        return x + 10 * lax.axis_index("i") + 100 * lax.axis_index("j")

    for spec, expected in [(WHOLE, [0]), (CUT, [0, 10, 20, 30]), (P("j"), [0, 100])]:
        out = sharded(f, WHOLE, spec, check_vma=False)(np.zeros(1, "int32"))
        np.testing.assert_array_equal(out, expected)  # the first one's, as in JAX


def test_explicit_mode_casts_nothing():
    f = sharded(lambda w, x: lax.pcast(w, "i", to="varying") * x * 2.0 + jnp.ones(4),
                (WHOLE, CUT), CUT, check_vma="explicit")
    same(f(W[0], X), W[0] * X * 2 + 1, 1e-5, 1e-5)
    same(mjax.grad(lambda w: loss(f(w, X)))(W[0]),
         mjax.grad(lambda w: loss(w * X * 2 + 1))(W[0]), 1e-4, 1e-4)
    with pytest.raises(TypeError, match=r"the operands of mul vary along different mesh axes: .*"
                                        r"Cast those that vary less with mjax.lax.pcast"):
        sharded(lambda w, x: w * x, (WHOLE, CUT), CUT, check_vma="explicit")(W[:2], X)
    with pytest.raises(TypeError, match=r"the programs inside of scan make carries or results"):
        sharded(lambda w, x: lax.scan(
            lambda c, r: (lax.pcast(c, "i", to="varying") + r, None), w[0], x)[0],
            (WHOLE, CUT), CUT, check_vma="explicit")(W, X)


def test_explicit_mode_and_functions_of_the_library():
    """Their numbers are literals, though they are arguments of functions that are jitted."""
    def f(x):
        key = lax.pcast(mjax.random.key(0), "i", to="varying")
        key = mjax.random.fold_in(key, lax.axis_index("i"))
        draws = [mjax.random.uniform(key, x.shape, minval=-1.0), mjax.random.bernoulli(
            key, 0.5, x.shape), mjax.random.randint(key, x.shape, 0, 9),
            mjax.random.truncated_normal(key, -1, 1, x.shape)]
        return [jnp.where(x > 0, d, 0) for d in draws]

    same(sharded(f, CUT, CUT, check_vma="explicit")(X), sharded(f, CUT, CUT)(X))


# ---- what XLA's regions do not take ----------------------------------------------------


def test_arrays_without_elements():
    empty = np.ones((0, 4), "float32")
    f = sharded(lambda x, y: (x.sum(0) + y, x * 2), (P(None, "i"), CUT), (CUT, P(None, "i")))
    a, b = f(empty, X[0])
    same(a, X[0])
    assert b.shape == (0, 4)
    assert sharded(lambda x: x, P(None, "i"), P(None, "i"))(empty).shape == (0, 4)
    keys = mjax.random.split(mjax.random.key(0), 4)[:0]
    assert sharded(lambda k: k, WHOLE, WHOLE)(keys).shape == (0,)


def test_closed_over_arrays_without_elements():
    empty, keys = jnp.ones((0, 4)), mjax.random.split(mjax.random.key(0), 4)[:0]
    f = sharded(lambda x: lax.concatenate([x, empty, x], 0) + mjax.random.key_data(keys).sum(),
                CUT, CUT)
    same(f(X), sharded(lambda x: lax.concatenate([x, x], 0), CUT, CUT)(X))
    # jaxlib 0.11.2 dies of one that enters the region.
    (region,) = [line for line in mjax.jit(f).lower(X).as_text().splitlines()
                 if "manual_computation(" in line] or [""]
    assert "tensor<0x" not in region


def test_effects_alone():
    seen = []
    f = sharded(lambda: mjax.debug.callback(lambda: seen.append(0)), (), None)
    assert f() is None
    if FFI_CALLBACKS.open:  # before, XLA compiles no program that takes arrays and gives none
        g = sharded(lambda x: mjax.debug.callback(lambda v: seen.append(0), x), CUT, None)
        assert g(X) is None
    mjax.effects_barrier()
    assert len(seen) == 16 if FFI_CALLBACKS.open else 8
