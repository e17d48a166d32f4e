"""Krylov methods with short recurrences: `cg` and `bicgstab`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.base.folding import boundary
from mjax._engine.control.loops.looping import while_loop
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.types import typeof
from mjax._numpy.arithmetic import square
from mjax._numpy.core import cast
from mjax._numpy.creation import ones
from mjax._numpy.selecting import where
from mjax._numpy.ufuncs import maximum
from mjax._scipy.krylov import vectors
from mjax._scipy.krylov.problems import FRAGMENTS, identity, size_of_tree, solved
from mjax._scipy.krylov.vectors import add, inner, real_inner, sub, times

_SHARED = {**FRAGMENTS, "maxiter": """\
maxiter: the limit of steps, by default ten per element of `b`.""",
           "returns": "Returns:\n  `(x, None)`: a tree like `b`, and None in place of SciPy's "
            "`info`."}


def _allowed(b: Any, tol: Any, atol: Any) -> Any:
    """The square of the tolerated norm of the residual."""
    size = real_inner(b, b)
    return maximum(square(tol) * size, square(atol))


def _conjugate_gradients(A: Callable[[Any], Any], b: Any, x0: Any, M: Callable[[Any], Any], *,
                         tol: Any, atol: Any, maxiter: Any) -> Any:
    allowed = _allowed(b, tol, atol)

    def goes_on(state: Any) -> Any:
        _, r, rz, _, count = state
        return ((rz if M is identity else real_inner(r, r)) > allowed) & (count < maxiter)

    def advanced(state: Any) -> Any:
        x, r, rz, p, count = state
        image = A(p)
        length = rz / real_inner(p, image)
        x, r = add(x, times(length, p)), sub(r, times(length, image))
        z = M(r)
        new = real_inner(r, z)
        return x, r, new, add(z, times(new / rz, p)), count + 1

    r = sub(b, A(x0))
    z = M(r)
    return while_loop(goes_on, advanced, (x0, r, real_inner(r, z), z, 0))[0]


@boundary
@documented(**_SHARED)
def cg(A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None,
       M: Any = None) -> tuple[Any, None]:
    """Solves `A x = b`, with `A` Hermitian and positive definite, by conjugate gradients.

    [derivatives]

    Args:
      [A]
      [b]
      [x0]
      [tol]
      [maxiter]
      [M]

    [returns]

    [raises]

    Source: `scipy.sparse.linalg.cg`; M. Hestenes and E. Stiefel, "Methods of conjugate gradients
    for solving linear systems", 1952.

    Example:
      >>> from mjax.scipy.sparse.linalg import cg
      >>> x, _ = cg(lambda x: 2 * x, jnp.array([2.0, 4.0]))
      >>> x
      Array([1., 2.], dtype=float32)
    """
    limit = 10 * size_of_tree(b) if maxiter is None else maxiter
    return solved("cg", _conjugate_gradients, A, b, x0, M, True, tol=tol, atol=atol,
                  maxiter=limit), None


def _bicgstab(A: Callable[[Any], Any], b: Any, x0: Any, M: Callable[[Any], Any], *, tol: Any,
              atol: Any, maxiter: Any) -> Any:
    allowed = _allowed(b, tol, atol)
    scalar = lambda x: cast(x, *vectors.common(b))

    def goes_on(state: Any) -> Any:
        r, count = state[1], state[-1]
        return (real_inner(r, r) > allowed) & (count < maxiter) & (count >= 0)

    def advanced(state: Any) -> Any:
        x, r, shadow, alpha, omega, rho, p, q, count = state
        new_rho = scalar(inner(shadow, r))
        beta = new_rho / rho * alpha / omega
        p = add(r, times(beta, sub(p, times(omega, q))))
        step = M(p)
        q = A(step)
        alpha = new_rho / scalar(inner(shadow, q))
        half = sub(r, times(alpha, q))
        done = real_inner(half, half) < allowed
        second = M(half)
        t = A(second)
        omega = scalar(inner(t, half) / inner(t, t))
        x = add(x, times(alpha, step))
        x = tree_map(lambda a, b: where(done, a, b), x, add(x, times(omega, second)))
        r = tree_map(lambda a, b: where(done, a, b), half, sub(half, times(omega, t)))
        # Negative counts mark a breakdown.
        count = where((omega == 0) | (alpha == 0), -11, count + 1)
        return x, r, shadow, alpha, omega, new_rho, p, q, where(new_rho == 0, -10, count)

    r = sub(b, A(x0))
    one = scalar(ones((), typeof(inner(b, b)).dtype))
    return while_loop(goes_on, advanced, (x0, r, r, one, one, one, r, r, 0))[0]


@boundary
@documented(**_SHARED)
def bicgstab(A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,
             maxiter: Any = None, M: Any = None) -> tuple[Any, None]:
    """Solves `A x = b`, with any `A`, by stabilized biconjugate gradients.

    [derivatives]

    Args:
      [A]
      [b]
      [x0]
      [tol]
      [maxiter]
      [M]

    [returns]

    [raises]

    Source: `scipy.sparse.linalg.bicgstab`; H. van der Vorst, "Bi-CGSTAB: a fast and smoothly
    converging variant of Bi-CG", 1992.

    Example:
      >>> from mjax.scipy.sparse.linalg import bicgstab
      >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 1.0]]), jnp.array([3.0, 1.0]))
      >>> np.allclose(x, [1, 1])
      True
    """
    limit = 10 * size_of_tree(b) if maxiter is None else maxiter
    return solved("bicgstab", _bicgstab, A, b, x0, M, False, tol=tol, atol=atol,
                  maxiter=limit), None


__all__ = ["bicgstab", "cg"]
