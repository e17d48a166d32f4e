"""Matrix factorizations of `numpy.linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.ir.types import typeof
from mjax._engine.linalg import cholesky as _cholesky
from mjax._engine.linalg import eig as _eig
from mjax._engine.linalg import eigh as _eigh
from mjax._engine.linalg import qr as _qr
from mjax._engine.linalg import reflectors
from mjax._engine.linalg import svd as _svd
from mjax._engine.linalg.matrices import adjoint, check_square, row, swap
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import stretch
from mjax._engine.primitives.gather import take_along_axis
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.sort import sort
from mjax._numpy.core import promote_dtypes_inexact
from mjax._numpy.fused import fused

if TYPE_CHECKING:
    from mjax._engine.runtime.arrays.array import Array


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Array
    S: Array
    Vh: Array


_documented = documented(
    square="a: square matrices of shape `(..., n, n)`.",
    matrices="a: matrices of shape `(..., m, n)`; `k = min(m, n)`.",
    hermitian="a: symmetric or Hermitian matrices of shape `(..., n, n)`.",
    symmetrize=("symmetrize_input: whether the mean of `a` and its adjoint is used; the\n"
                "  derivative is then symmetric too."),
    uplo='UPLO: `"L"` or `"U"`: which triangle is read, if `symmetrize_input` is False.',
    not_square="ValueError: the matrices are not square, or have fewer than two axes.",
)


def operand(name: str, a: Any, square: bool = True) -> Any:
    """Matrices in an inexact dtype.

    Raises:
      ValueError: there are fewer than two axes, or the last two are not equal.
    """
    (a,) = promote_dtypes_inexact(a)
    if typeof(a).ndim < 2:
        raise LazyArgumentError(lambda: (
            f"{name}: a matrix has at least two axes, got shape {typeof(a).shape}."))
    if square:
        check_square(name, typeof(a).shape[-2:])
    return a


@fused(values=("a",), static_argnames=("upper", "symmetrize_input"))
@_documented
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """Cholesky factor of positive definite matrices.

    Args:
      [hermitian]
      upper: whether the upper factor is returned, with `a = u.conj().T @ u`, or the lower one,
        with `a = l @ l.conj().T`.
      [symmetrize]

    Returns:
      Triangular matrices of the shape of `a`; NaN for those that are not positive definite.

    Raises:
      [not_square]

    Source: `numpy.linalg.cholesky`.

    Example:
      >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 2.0]]))
      Array([[2., 0.],
             [1., 1.]], dtype=float32)
    """
    factor = _cholesky.cholesky(operand("cholesky", a), symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


@fused(values=("a",), static_argnames=("mode",))
@_documented
def qr(a: Any, mode: str = "reduced") -> Any:
    """QR decomposition: `a = q @ r` with orthonormal columns Q and an upper triangular R.

    Args:
      [matrices]
      mode: `"reduced"`: Q has k columns; `"complete"`: Q is square; `"r"`: only R is returned;
        `"raw"`: LAPACK's reflectors are returned.

    Returns:
      A pair `(Q, R)`, of shapes `(..., m, k)` and `(..., k, n)`, or `(..., m, m)` and
      `(..., m, n)`. For `"raw"`, the transposed matrix of reflectors and their factors.

    Raises:
      ValueError: an unknown mode, or fewer than two axes.

    Source: `numpy.linalg.qr`.

    Example:
      >>> jnp.linalg.qr(jnp.array([[3.0, 0.0], [4.0, 5.0]]), mode="r")
      Array([[-5., -4.],
             [ 0.,  3.]], dtype=float32)
    """
    a = operand("qr", a, square=False)
    if mode == "raw":
        out, taus = reflectors.geqrf(a)
        return QRResult(swap(out), taus)
    if mode not in ("reduced", "full", "complete", "r"):
        msg = f'qr: unknown mode {mode!r}; it is "reduced", "complete", "r" or "raw".'
        raise ValueError(msg)
    q, r = _qr.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@fused(values=("a",),
       static_argnames=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
@_documented
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> Any:
    """Singular value decomposition: `a = U @ diag(S) @ Vh`.

    Args:
      [matrices]
      full_matrices: whether U and V are square; otherwise they have k columns.
      compute_uv: whether U and V are returned.
      hermitian: whether the matrices are Hermitian, which is faster.
      subset_by_index: `(start, end)`: the range of singular values to return, in descending
        order.

    Returns:
      `(U, S, Vh)`, or `S` if not `compute_uv`: the singular values, real and descending, of shape
      `(..., k)`.

    Raises:
      ValueError: fewer than two axes, or a subset that is out of range or combined with full
        matrices.
      TypeError: a subset that is not a pair of integers.

    Source: `numpy.linalg.svd`.

    Example:
      >>> jnp.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    a = operand("svd", a, square=hermitian)
    if hermitian:
        return _hermitian_svd(a, compute_uv, subset_by_index)
    out = _svd.svd(a, full_matrices=full_matrices, compute_uv=compute_uv,
                   subset_by_index=subset_by_index)
    return SVDResult(*out) if compute_uv else out


def _hermitian_svd(a: Any, compute_uv: bool, subset: tuple[int, int] | None) -> Any:
    """The decomposition of Hermitian matrices: absolute eigenvalues; V takes their signs."""
    vectors, values = _eigh.eigh(a, subset_by_index=subset)
    sizes, last = lax.abs(values), typeof(values).ndim - 1
    if not compute_uv:
        return rev(sort(sizes, dimension=last), (last,))
    order = broadcasted_iota("int32", typeof(sizes).shape, last)
    sizes, order, signs = [rev(x, (last,)) for x in sort(
        (sizes, order, lax.sign(values)), dimension=last)]
    shape = typeof(vectors).shape
    u = take_along_axis(vectors, stretch(row(order), shape), last + 1, mode="promise_in_bounds")
    signs = stretch(row(convert(signs, typeof(u).dtype)), shape)
    return SVDResult(u, sizes, adjoint(lax.mul(u, signs)))


@fused(values=("x",))
def svdvals(x: Any, /) -> Any:
    """Singular values of matrices.

    Args:
      x: matrices of shape `(..., m, n)`.

    Returns:
      The singular values, real and descending, of shape `(..., min(m, n))`.

    Raises:
      ValueError: fewer than two axes.

    Source: `numpy.linalg.svdvals`.

    Example:
      >>> jnp.linalg.svdvals(jnp.array([[3.0, 0.0], [0.0, 4.0]]))
      Array([4., 3.], dtype=float32)
    """
    return _svd.svd(operand("svdvals", x, square=False), compute_uv=False)


@fused(values=("a",))
@_documented
def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices.

    Args:
      [square]

    Returns:
      A pair: `eigenvalues`, complex of shape `(..., n)`, in no order, and `eigenvectors`, complex
      of shape `(..., n, n)`, as columns.

    Raises:
      [not_square]
      NotImplementedError: a derivative of the eigenvectors; see `lax.linalg.eig`.

    Source: `numpy.linalg.eig`.

    Example:
      >>> jnp.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
      Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    return EigResult(*_eig.eig(operand("eig", a), compute_left_eigenvectors=False))


@fused(values=("a",))
@_documented
def eigvals(a: Any) -> Any:
    """Eigenvalues of square matrices.

    Args:
      [square]

    Returns:
      The eigenvalues, complex of shape `(..., n)`, in no order.

    Raises:
      [not_square]

    Source: `numpy.linalg.eigvals`.

    Example:
      >>> jnp.linalg.eigvals(jnp.array([[0.0, -1.0], [1.0, 0.0]]))
      Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return _eig.eig(operand("eigvals", a), compute_left_eigenvectors=False,
                    compute_right_eigenvectors=False)[0]


def _is_lower(name: str, uplo: str | None) -> bool:
    if uplo not in (None, "L", "U"):
        msg = f"{name}: UPLO must be 'L', 'U' or None, got {uplo!r}."
        raise ValueError(msg)
    return uplo != "U"


@fused(values=("a",), static_argnames=("UPLO", "symmetrize_input"))
@_documented
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Args:
      [hermitian]
      [uplo]
      [symmetrize]

    Returns:
      A pair: `eigenvalues`, real and ascending, of shape `(..., n)`, and `eigenvectors`, of shape
      `(..., n, n)`, as columns.

    Raises:
      [not_square]

    Source: `numpy.linalg.eigh`.

    Example:
      >>> jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
      Array([1., 2.], dtype=float32)
    """
    lower = _is_lower("eigh", UPLO)
    vectors, values = _eigh.eigh(operand("eigh", a), lower=lower,
                                 symmetrize_input=symmetrize_input)
    return EighResult(values, vectors)


@fused(values=("a",), static_argnames=("UPLO", "symmetrize_input"))
@_documented
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """Eigenvalues of symmetric or Hermitian matrices.

    Args:
      [hermitian]
      [uplo]
      [symmetrize]

    Returns:
      The eigenvalues, real and ascending, of shape `(..., n)`.

    Raises:
      [not_square]

    Source: `numpy.linalg.eigvalsh`.

    Example:
      >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 0.0], [0.0, 1.0]]))
      Array([1., 2.], dtype=float32)
    """
    lower = _is_lower("eigvalsh", UPLO)
    return _eigh.eigh(operand("eigvalsh", a), lower=lower, symmetrize_input=symmetrize_input)[1]
