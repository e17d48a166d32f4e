"""Equations of jax's programs, bound to mjax's primitives with jax's params: the types are jax's.

Interpreters and exporters of other libraries repeat equations so, and write down params as jax has
them. Params that mjax lacks for a reason are left out (`docs/primitives.md`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mjax
import mjax.lax
from mjax._engine.ir.check import check_jaxpr
from mjax_ext.core import primitives

X = jnp.arange(1.0, 7.0, dtype="float32").reshape(2, 3)
V, N = X[0], jnp.arange(6).reshape(2, 3)
M = jnp.eye(3, dtype="float32") * 3 + 0.1
KEY = jax.random.key(0)
#: In jax alone: types do not have shardings, a product has the operands' dtype, and scatters say
#: how they combine.
OF_JAX = {"sharding", "out_sharding", "out_dtype", "update_jaxpr", "update_consts"}

CALLS = {
    "elementwise": lambda: [jnp.sin(X), lax.exp(X, accuracy=lax.AccuracyMode.HIGHEST), X**3,
                            lax.integer_pow(X, -2), lax.round(X), jnp.sqrt(X), lax.logistic(X),
                            lax.round(X, lax.RoundingMethod.TO_NEAREST_EVEN), lax.rem(X, 2.0),
                            lax.clamp(1.0, X, 2.0), lax.reduce_precision(X, 5, 10),
                            jnp.where(X > 2, X, 0.0)],
    "special": lambda: [lax.lgamma(X), lax.betainc(1.0, 2.0, V / 9), lax.polygamma(1.0, X),
                        lax.igamma(2.0, 3.0), lax.erf_inv(X / 9), lax.bessel_i0e(X)],
    "integers": lambda: [lax.shift_left(N, 1), lax.population_count(N), lax.clz(N), ~N, N ^ 1],
    "types": lambda: [X.astype("int32"), X.astype("bfloat16"), lax.bitcast_convert_type(X, "int32"),
                      lax.complex(X, X), jnp.imag(X + 1j), jnp.array(X)],
    "reductions": lambda: [X.sum(0), X.max(1), X.prod(), jnp.argmax(X, 1), jnp.all(X > 1),
                           lax.argmin(X, 1, np.int32), lax.reduce_xor(N, (0,)), jnp.median(X)],
    "windows": lambda: [lax.reduce_window(X, -np.inf, lax.max, (1, 2), (1, 1), "VALID"),
                        lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
                        jax.grad(lambda x: lax.reduce_window(
                            x, -np.inf, lax.max, (1, 2), (1, 1), "VALID").sum())(X)],
    "cumulative": lambda: [jnp.cumsum(X, 1), lax.cummin(X, reverse=True), lax.cumlogsumexp(X)],
    "shapes": lambda: [X.reshape(3, 2), X.T, lax.broadcast_in_dim(V, (2, 3), (1,)), X[:, ::2],
                       jnp.concatenate([X, X]), lax.pad(X, 0.0, ((0, 1, 1), (-1, 0, 0))), X[::-1],
                       lax.squeeze(X[:1], (0,)), lax.split(X, (1, 2), axis=1), lax.tile(X, (2, 1)),
                       lax.reshape(X, (6,), dimensions=(1, 0)), jnp.arange(3)],
    "slices": lambda: [lax.dynamic_slice(X, (0, 1), (1, 2)), X.at[0, 1].set(1.0),
                       lax.dynamic_update_slice(X, X[:1, :1], (0, 1)),
                       jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(X, jnp.arange(2))],
    "gather": lambda: [X[jnp.array([0, 1]), 1], jnp.take_along_axis(X, N % 2, 1, mode="clip"),
                       X.at[jnp.array([0, 5])].get(mode="fill", fill_value=7.0),
                       jax.vmap(lambda x, i: x[i])(X, jnp.arange(2))],
    "scatter": lambda: [X.at[0].add(1.0), X.at[0].mul(2.0), X.at[:, 1].max(0.0),
                        X.at[jnp.arange(2)].min(0.0, mode="drop", unique_indices=True),
                        jax.vmap(lambda x, i: x.at[i].add(1.0))(X, jnp.arange(2))],
    "sorting": lambda: [jnp.sort(X), jnp.argsort(X), lax.sort((X, N), num_keys=2, dimension=0),
                        lax.top_k(X, 2), lax.top_k(X, 1, axis=0), lax.approx_max_k(X, 1),
                        lax.approx_min_k(X, 1, reduction_dimension=0)],
    "products": lambda: [X @ M, lax.dot(X, M, precision=lax.Precision.HIGH), lax.dot_general(
        X.astype("bfloat16"), M.astype("bfloat16"), (((1,), (0,)), ((), ())),
        precision=lax.DotAlgorithmPreset.BF16_BF16_F32, preferred_element_type="float32"),
                         jax.grad(lambda x: (x @ M).sum())(X)],
    "convolutions": lambda: [jnp.convolve(V, V), lax.conv_general_dilated(
        jnp.ones((1, 4, 4, 2)), jnp.ones((2, 2, 1, 2)), (1, 1), [(0, 1), (1, 0)], (2, 1), (1, 1),
        ("NHWC", "HWIO", "NHWC"), 2)],
    "fft": lambda: [jnp.fft.fft(V), jnp.fft.rfft(V), jnp.fft.irfft(V + 0j), jnp.fft.fft2(X)],
    "linalg": lambda: [jnp.linalg.cholesky(M), jnp.linalg.qr(M), jnp.linalg.svd(M),
                       lax.linalg.lu(M), lax.linalg.eigh(M, lower=False, sort_eigenvalues=False),
                       jnp.linalg.eig(M), jnp.linalg.svd(X, compute_uv=False),
                       lax.linalg.triangular_solve(M, M, lower=True, transpose_a=True),
                       lax.linalg.schur(M), lax.linalg.hessenberg(M), lax.linalg.tridiagonal(M),
                       lax.linalg.householder_product(M, V), lax.linalg.symmetric_product(M, M)],
    "random": lambda: [jax.random.split(KEY, 2), jax.random.bits(KEY, (2,)), jax.random.gamma(
        KEY, 2.0), jax.random.fold_in(KEY, 1), jax.random.permutation(KEY, 3), lax.rng_uniform(
            0.0, 1.0, (2,)), lax.rng_bit_generator(jnp.zeros(4, "uint32"), (2,), "uint16")],
}


def own(value):
    """A param of jax's as mjax has it: classes and primitives of the same names."""
    cls = type(value)
    if type(value) is tuple:
        return tuple(map(own, value))
    if not cls.__module__.startswith("jax"):
        return value
    if cls.__name__ == "KeyTy":
        return mjax.random.key(0).dtype
    if cls.__name__ == "PRNGImpl":
        return mjax.random.key(0).dtype.impl
    if cls.__name__ == "Primitive":
        return PRIMITIVES[value.name]
    mine = getattr(mjax.lax, cls.__name__)
    return mine(*value) if hasattr(value, "_fields") else mine[value.name]


PRIMITIVES = {getattr(primitives, name).name: getattr(primitives, name)
              for name in primitives.__all__}


def first_order(jaxpr):
    """The equations of a program and of those inside."""
    for eqn in jaxpr.eqns:
        inner = [p for p in eqn.params.values() if hasattr(p, "eqns") or hasattr(p, "jaxpr")]
        if inner and not eqn.primitive.name.startswith("scatter"):
            for program in inner:
                yield from first_order(getattr(program, "jaxpr", program))
        elif not any(isinstance(p, tuple) and any(hasattr(q, "jaxpr") for q in p)
                     for p in eqn.params.values()):
            yield eqn


@pytest.mark.parametrize("name", CALLS)
def test_equations_have_the_types_of_jax(name):
    seen = 0
    for eqn in first_order(jax.make_jaxpr(CALLS[name])().jaxpr):
        p = PRIMITIVES[eqn.primitive.name]
        params = {key: own(value) for key, value in eqn.params.items() if key not in OF_JAX}
        operands = [mjax.ShapeDtypeStruct(v.aval.shape, own(v.aval.dtype)) for v in eqn.invars]
        jaxpr = mjax.make_jaxpr(lambda *xs, p=p, params=params: p.bind(*xs, **params))(*operands)
        check_jaxpr(jaxpr)
        assert [a.str_short() for a in jaxpr.out_avals] == [
            v.aval.str_short() for v in eqn.outvars], eqn
        seen += 1
    assert seen > 2
