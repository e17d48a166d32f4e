"""half(x): a primitive with all its rules."""

import jax.core
import jax.extend.core as jex_core  # where Primitive lives
import numpy as np
from jax.extend.mlir.dialects import stablehlo as hlo
from jax.interpreters import (
    ad,
    batching,
    mlir,
)

from halves._compat import not_mapped

half_p = jex_core.Primitive("half")


def half(x):
    return half_p.bind(x)


@half_p.def_impl
def _half_impl(x):
    return np.asarray(x) / np.asarray(2, np.asarray(x).dtype)


@half_p.def_abstract_eval
def _half_abstract(x: "jax.core.ShapedArray") -> jax.core.ShapedArray:
    return jax.core.ShapedArray(x.shape, x.dtype)


def _half_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return half(x), t if type(t) is ad.Zero else half(t)


def _half_batch(args, dims):
    assert dims[0] is not not_mapped
    return half(*args), dims[0]


def _half_lowering(ctx: mlir.LoweringRuleContext, x):
    aval, = ctx.avals_out
    two = mlir.ir_constant(np.full(aval.shape, 2, aval.dtype))
    return hlo.DivOp(x, two).results


ad.primitive_jvps[half_p] = _half_jvp
ad.primitive_transposes[half_p] = lambda ct, x: [half(ct)]
batching.primitive_batchers[half_p] = _half_batch
mlir.register_lowering(half_p, _half_lowering)
