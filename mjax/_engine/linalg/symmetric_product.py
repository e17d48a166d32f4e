"""Products of matrices with their own transposes: symmetric_product_p."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.linalg.matrices import check_square, define_matrix_types, dot, scaled, swap, tril
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.tangents import define_jvp_from_result
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive

symmetric_product_p = EnginePrimitive("symmetric_product", params={
    "alpha": float, "beta": float}, exact_params=("alpha", "beta"))


def _shapes(a: tuple[int, ...], c: tuple[int, ...], **_: Any) -> list[tuple[int, ...]]:
    if check_square("symmetric_product", c) != a[0]:
        raise LazyValueError(lambda: (
            f"symmetric_product: c_matrix must be square with {a[0]} rows, as products of matrices "
            f"of shape {a}, but has shape {c}."))
    return [c]


define_matrix_types(symmetric_product_p, (2, 2), "fc", _shapes)


def _product(a: Any, c: Any, *, alpha: float, beta: float) -> Any:
    return lax.add(scaled(dot(a, swap(a)), alpha), scaled(c, beta))


symmetric_product_p.def_lowering(traced(_product))


def _matrix_tangent(t: Any, out: Any, a: Any, c: Any, *, alpha: float, beta: float) -> Any:
    half = dot(t, swap(a))
    return scaled(lax.add(half, swap(half)), alpha)


define_jvp_from_result(symmetric_product_p, _matrix_tangent,
                       lambda t, out, a, c, *, alpha, beta: scaled(t, beta))


@boundary
def symmetric_product(a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0,
                      symmetrize_output: bool = False) -> Any:
    """`alpha * a @ a.T + beta * c`, for symmetric matrices C.

    Args:
      a_matrix: matrices of shape `(..., m, n)`.
      c_matrix: matrices of shape `(..., m, m)`.
      alpha: a Python number.
      beta: a Python number.
      symmetrize_output: whether the upper triangle is copied from the lower one; otherwise only
        the lower one is correct on all platforms.

    Returns:
      Matrices of the shape and dtype of `c_matrix`.

    Raises:
      ValueError: the shapes do not fit.
      TypeError: the dtypes differ or are not inexact.

    Source: BLAS, `syrk`.

    Example:
      >>> mjax.lax.linalg.symmetric_product(jnp.array([[1.0, 2.0]]), jnp.eye(1), beta=2.0)
      Array([[7.]], dtype=float32)
    """
    out = symmetric_product_p.bind(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
    if symmetrize_output:
        return lax.add(tril(out), swap(tril(out, -1)))
    return out
