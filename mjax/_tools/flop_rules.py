"""The numbers of floating-point operations of primitives.

They count the textbook algorithm, not the code that a compiler generates. Sources:
LAPACK Working Note 41 for factorizations, Golub and Van Loan 2013 (section 8.6) for eigenvalues
and singular values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr

#: From operand types, result types and params to a count.
Rule = Callable[..., float]

#: Primitives that move, make or name data.
MOVES = frozenset((
    "after_all", "all_gather", "all_gather_invariant", "all_to_all", "axis_index",
    "bitcast_convert_type", "broadcast_in_dim", "check", "complex", "concatenate",
    "convert_element_type", "copy", "create_token", "dce_sink", "debug_callback", "device_put",
    "dynamic_slice", "dynamic_update_slice", "free_ref", "freeze", "gather", "get", "imag",
    "inspect_sharding", "iota", "iota_2x32_shape", "layout_constraint",
    "lu_pivots_to_permutation", "name", "new_ref", "optimization_barrier", "pack", "pad",
    "pbroadcast", "platform_index", "ppermute", "pscatter", "pvary", "ragged_all_to_all",
    "random_clone", "random_unwrap", "random_wrap", "real", "reduce_precision", "reshape",
    "rev", "scatter", "select_and_gather_add", "sharding_constraint", "slice", "split",
    "squeeze", "stack", "stage", "stop_gradient", "swap", "tile", "transpose", "unpack",
    "unstack"))

#: Primitives that call code whose operations are not known.
OPAQUE = frozenset(("call_exported", "ffi_call", "io_callback", "pure_callback"))


def _size(aval: Any) -> int:
    return math.prod(aval.shape)


def _mixed(multiplications: float, additions: float, aval: Any) -> float:
    """The sum; complex multiplications are six operations, complex additions two."""
    if dtypes.is_complex(aval.dtype):
        return 6 * multiplications + 2 * additions
    return multiplications + additions


def elementwise(ins: Any, outs: Any, **params: Any) -> float:
    """One for each element of the results."""
    return sum(map(_size, outs))


def _reduced(ins: Any, outs: Any, **params: Any) -> float:
    """One less than elements, for each result."""
    return max(_size(ins[0]) - _size(outs[0]), 0)


def _cumulated(ins: Any, outs: Any, *, axis: int, **params: Any) -> float:
    size = ins[0].shape[axis]
    return _size(ins[0]) // size * (size - 1) if size else 0


def _windows(ins: Any, outs: Any, *, window_dimensions: Any, **params: Any) -> float:
    return _size(outs[0]) * (math.prod(window_dimensions) - 1)


def _scattered_windows(ins: Any, outs: Any, *, window_dimensions: Any, **params: Any) -> float:
    """Comparisons in each window, and an addition for each."""
    return _size(ins[0]) * math.prod(window_dimensions)


def _updated(ins: Any, outs: Any, **params: Any) -> float:
    return _size(ins[2])


def _sorted(ins: Any, outs: Any, *, dimension: int = -1, **params: Any) -> float:
    size = ins[0].shape[dimension]
    return _size(ins[0]) * math.log2(max(size, 1))


def _product(ins: Any, outs: Any, *, dimension_numbers: Any, **params: Any) -> float:
    (contracted, _), _ = dimension_numbers
    n = _size(outs[0]) * math.prod(ins[0].shape[i] for i in contracted)
    return _mixed(n, n, outs[0])


def _ragged_product(ins: Any, outs: Any, **params: Any) -> float:
    """Each row of the left operand meets one group of the right one."""
    (contracted, _), _ = params["ragged_dot_dimension_numbers"].dot_dimension_numbers
    n = math.prod(ins[0].shape[i] for i in contracted)
    groups = outs[0].ndim == ins[0].ndim + 1
    n *= _size(outs[0]) // (outs[0].shape[0] if groups else 1)
    return _mixed(n, n, outs[0])


def _convolution(ins: Any, outs: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any,
                 rhs_dilation: Any, dimension_numbers: Any, batch_group_count: int,
                 **params: Any) -> float:
    """Multiplications with padding and with the holes of dilated operands are left out."""
    lhs, rhs = ins
    (_, _, *lhs_spec), (of, inner, *rhs_spec) = dimension_numbers[:2]
    batch = lhs.shape[dimension_numbers[0][0]] // batch_group_count
    n = batch * rhs.shape[of] * rhs.shape[inner]
    out_spec = dimension_numbers[2][2:]
    for i, (a, b, c) in enumerate(zip(lhs_spec, rhs_spec, out_spec, strict=True)):
        at = (np.arange(outs[0].shape[c])[:, None] * window_strides[i] - padding[i][0]
              + np.arange(rhs.shape[b]) * rhs_dilation[i])
        n *= int(np.sum((at >= 0) & (at <= (lhs.shape[a] - 1) * lhs_dilation[i])
                        & (at % lhs_dilation[i] == 0)))
    return _mixed(n, n, outs[0])


def _fft(ins: Any, outs: Any, *, fft_lengths: Any, **params: Any) -> float:
    """5 n log2 n for each transform of n complex numbers, half of that if they are real."""
    n = math.prod(fft_lengths)
    if not n:
        return 0
    real = not all(dtypes.is_complex(a.dtype) for a in (ins[0], outs[0]))
    whole = outs[0] if dtypes.is_complex(ins[0].dtype) else ins[0]
    return _size(whole) / n * (2.5 if real else 5) * n * math.log2(n)


# ---- linear algebra --------------------------------------------------------------------


def _of_stacks(count: Callable[..., float]) -> Rule:
    """A rule from one on the last two sizes of the first operand, `(m, n, aval, outs, params)`."""

    def rule(ins: Any, outs: Any, **params: Any) -> float:
        *stack, m, n = ins[0].shape
        return math.prod(stack) * count(m, n, ins[0], outs, params)

    return rule


def _cholesky(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    return _mixed(n**3 / 6 + n**2 / 2 + n / 3, n**3 / 6 - n / 6, aval)


def _lu(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    """Scales a column below each pivot by its reciprocal, and updates a matrix."""
    k = min(m, n)
    updates = k * (m - 1) * (n - 1) - (m + n - 2) * k * (k - 1) / 2 + (k - 1) * k * (2 * k - 1) / 6
    return _mixed(updates + k * m - k * (k - 1) / 2, updates, aval)


def _geqrf(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    if m >= n:
        return _mixed(m * n**2 - n**3 / 3 + n**2 / 2 + m * n + 23 * n / 6,
                      m * n**2 - n**3 / 3 + n**2 / 2 + 5 * n / 6, aval)
    return _mixed(n * m**2 - m**3 / 3 - m**2 / 2 + 2 * m * n + 23 * m / 6,
                  n * m**2 - m**3 / 3 - m**2 / 2 + m * n + 5 * m / 6, aval)


def _orgqr(m: int, n: int, k: int, aval: Any) -> float:
    both = 2 * m * n * k - (m + n) * k**2 + 2 * k**3 / 3
    return _mixed(both + 2 * n * k - k**2 - 5 * k / 3, both + n * k - m * k + k / 3, aval)


def _qr(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    return _geqrf(m, n, aval, outs, params) + _orgqr(m, outs[0].shape[-1], min(m, n), aval)


def _householder(ins: Any, outs: Any, **params: Any) -> float:
    *stack, m, n = ins[0].shape
    return math.prod(stack) * _orgqr(m, n, ins[1].shape[-1], ins[0])


def _ormqr(ins: Any, outs: Any, *, left: bool = True, **params: Any) -> float:
    *stack, m, n = ins[2].shape
    k = ins[1].shape[-1]
    m, n = (m, n) if left else (n, m)
    both = 2 * m * n * k - n * k**2
    return math.prod(stack) * _mixed(both + 2 * n * k, both + n * k, ins[2])


def _triangular(ins: Any, outs: Any, *, left_side: bool, **params: Any) -> float:
    *stack, rows, columns = ins[1].shape
    m, n = (rows, columns) if left_side else (columns, rows)
    return math.prod(stack) * _mixed(n * m * (m + 1) / 2, n * m * (m - 1) / 2, ins[1])


def _times_cube(factor: float) -> Rule:
    """Half of the operations are multiplications, half additions."""
    return _of_stacks(lambda m, n, aval, outs, params: _mixed(
        factor / 2 * n**3, factor / 2 * n**3, aval))


def _svd(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    m, n = max(m, n), min(m, n)
    if not params.get("compute_uv", True):
        total = 4 * m * n**2 - 4 * n**3 / 3
    elif params.get("full_matrices", False):
        total = 4 * m**2 * n + 8 * m * n**2 + 9 * n**3
    else:
        total = 14 * m * n**2 + 8 * n**3
    return _mixed(total / 2, total / 2, aval)


def _eig(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    factor = 25 if len(outs) > 1 else 10
    return _mixed(factor * n**3 / 2, factor * n**3 / 2, aval)


def _tridiagonal_solve(ins: Any, outs: Any, **params: Any) -> float:
    *stack, n, columns = ins[3].shape
    return math.prod(stack) * _mixed(n + 2 * n * columns, n + 2 * n * columns, ins[3])


def _cholesky_update(m: int, n: int, aval: Any, outs: Any, params: Any) -> float:
    """A rotation for each column: four multiplications and two additions in each row below."""
    return 3 * n * (n + 1)


def _added(ins: Any, outs: Any, **params: Any) -> float:
    return _size(ins[1])


def _symmetric_product(ins: Any, outs: Any, **params: Any) -> float:
    *stack, n, k = ins[0].shape
    return math.prod(stack) * _mixed(k * n * (n + 1) / 2, k * n * (n + 1) / 2, ins[0])


#: By names, for primitives without exactly one operation per element.
RULES: dict[str, Rule] = {
    **dict.fromkeys(("argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
                     "reduce_prod", "reduce_sum", "reduce_xor"), _reduced),
    **dict.fromkeys(("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"), _cumulated),
    **dict.fromkeys(("reduce_window_max", "reduce_window_min", "reduce_window_sum"), _windows),
    **dict.fromkeys(("select_and_scatter", "select_and_scatter_add"), _scattered_windows),
    **dict.fromkeys(("scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub",
                     "scatter-apply"), _updated),
    **dict.fromkeys(("approx_top_k", "sort", "top_k"), _sorted),
    "cholesky": _of_stacks(_cholesky), "cholesky_update": _of_stacks(_cholesky_update),
    "addupdate": _added, "conv_general_dilated": _convolution,
    "dot_general": _product, "eig": _of_stacks(_eig), "eigh": _times_cube(9), "fft": _fft,
    "geqp3": _of_stacks(_geqrf), "geqrf": _of_stacks(_geqrf), "hessenberg": _times_cube(10 / 3),
    "householder_product": _householder, "lu": _of_stacks(_lu), "ormqr": _ormqr,
    "qr": _of_stacks(_qr), "ragged_dot_general": _ragged_product, "schur": _times_cube(25),
    "svd": _of_stacks(_svd), "symmetric_product": _symmetric_product,
    "triangular_solve": _triangular, "tridiagonal": _times_cube(4 / 3),
    "tridiagonal_solve": _tridiagonal_solve,
}


def of_combining(eqn: Any, count: Callable[[Jaxpr], float]) -> float | None:
    """Operations of a primitive without a frame that applies a function of scalars.

    Args:
      eqn: an equation.
      count: the operations of a jaxpr.

    Returns:
      The count; None if the primitive holds no function.
    """
    name, params = eqn.primitive.name, eqn.params
    if name in ("reduce", "reduce_window"):
        ins, outs = ([v.aval for v in vs] for vs in (eqn.invars, eqn.outvars))
        return count(params["jaxpr"]) * (_reduced if name == "reduce" else _windows)(
            ins, outs, **params)
    if name == "scatter-apply":
        return count(params["update_jaxpr"]) * _size(eqn.invars[2].aval)
    return None


def of_equation(eqn: Any) -> float:
    """The operations of one application of a primitive without a program."""
    name = eqn.primitive.name
    if name in MOVES or name in OPAQUE:
        return 0
    rule = RULES.get(name, elementwise)
    return rule([v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], **eqn.params)
