"""Products: dot, matmul and their kin, einsum: against NumPy, and their derivatives."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.jaxpr import subjaxprs
from mjax._numpy.matrix_chains import matrix_power, multi_dot
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)


def r(*shape: int, dtype: str = "f4") -> np.ndarray[Any, Any]:
    """Random numbers, integers for integer dtypes."""
    if dtype[0] in "iub":
        return rng.integers(0, 5, shape).astype(dtype)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape)).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


MATMUL = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
          ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)), ((1, 2, 3), (5, 3, 4)),
          ((6, 1, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (3,)), ((3,), (6, 5, 3, 4)),
          ((2, 3), (6, 5, 3, 4)), ((6, 1, 2, 3), (1, 5, 3, 4)), ((1, 2, 3), (1, 1, 3, 4)),
          ((0, 2, 3), (3, 4)), ((2, 0), (0, 4))]
PRODUCTS = [
    *[call("matmul", r(*s), r(*t)) for s, t in MATMUL],
    *[call("dot", r(*s), r(*t)) for s, t in MATMUL if len(t) < 4 or s == (3,)],
    *[call("matmul", r(2, 3, dtype=a), r(3, 2, dtype=b), tolerance=1e-4)
      for a, b in (("i4", "i4"), ("?", "?"), ("?", "i4"), ("c8", "f4"), ("u1", "i4"))],
    call("dot", np.float32(2) * np.ones(()), r(2, 3)), call("dot", r(2, 3), 2.0),
    *[call("inner", r(*s), r(*t)) for s, t in (((3,), (3,)), ((2, 3), (4, 3)), ((5, 2, 3), (3,)))],
    call("inner", 2.0, r(3)), call("vdot", r(2, 3, dtype="c8"), r(3, 2, dtype="c8"),
                                   reference=lambda a, b: np.vdot(a.ravel(), b.ravel())),
    *[call("outer", r(*s), r(*t)) for s, t in (((3,), (4,)), ((2, 2), (3,)), ((), (3,)))],
    *[call("vecdot", r(*s, dtype=d), r(*t, dtype=d),
           reference=lambda a, b: np.sum(np.conj(a) * b, -1))
      for s, t in (((3,), (3,)), ((2, 3), (3,)), ((5, 1, 3), (2, 3))) for d in ("f4", "c8")],
    call("vecdot", r(3, 2), r(3, 2), axis=0, reference=lambda a, b, axis: np.sum(a * b, axis)),
    *[call("matvec", r(*s), r(*t), reference=lambda a, b: (a @ b[..., None])[..., 0])
      for s, t in (((2, 3), (3,)), ((5, 2, 3), (3,)), ((5, 1, 2, 3), (4, 3)))],
    *[call("vecmat", r(*s, dtype=d), r(*t, dtype=d),
           reference=lambda a, b: (a.conj()[..., None, :] @ b)[..., 0, :])
      for s, t in (((3,), (3, 2)), ((5, 3), (3, 2)), ((4, 3), (5, 1, 3, 2)))
      for d in ("f4", "c8")],
    *[call("tensordot", r(2, 3, 4), r(4, 3, 2), axes) for axes in (
        0, 1, ((1,), (1,)), ((0, 1), (2, 1)), ((0, 1, 2), (2, 1, 0)), [[-1], [0]], (0, -1))],
    call("tensordot", r(2, 3), r(2, 3), 2), call("kron", r(2, 3), r(4)),
    call("kron", r(3), r(2, 2, 2)), call("kron", r(2, dtype="i4"), r(2, 2)),
    call("cross", r(3), r(3)), call("cross", r(4, 1, 3), r(5, 3)),
    call("cross", r(3, 4), r(3, 4), axis=0),
    call("cross", r(3, 4), r(4, 3), axisa=0, axisb=1, axisc=0),
]

EINSUM: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk", [(2, 3), (3, 4)]), ("ij", [(2, 3)]), ("ji", [(2, 3)]), ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]), ("iii->i", [(2, 2, 2)]), ("iji->j", [(2, 3, 2)]),
    ("iijj->ji", [(2, 2, 3, 3)]), ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]),
    ("...i,...i->...", [(4, 2, 3), (2, 3)]), ("i...->...", [(2, 3)]), ("...->...", [(2, 3)]),
    ("ij...,jk...->ik...", [(2, 3, 5), (3, 4, 1)]),
    ("ij,ij->ij", [(2, 3)] * 2), ("ij,kl->ijkl", [(2, 3), (4, 5)]),
    ("ij,kl->likj", [(2, 3), (4, 5)]), ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
    ("bij,bjk->bki", [(5, 2, 3), (5, 3, 4)]), ("bij,bjk->ikb", [(5, 2, 3), (5, 3, 4)]),
    ("i,j", [(2,), (3,)]), ("ij,jk->ik", [(2, 3), (1, 4)]), ("ij,j->i", [(2, 3), (1,)]),
    ("ij,->ij", [(2, 3), ()]), ("", [()]), (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("ij,jk,kl,lm", [(2, 3), (3, 4), (4, 5), (5, 6)]),
    ("ijk,jil->kl", [(2, 3, 4), (3, 2, 5)]), ("i,i,i->", [(3,), (3,), (3,)]),
    ("ij,i,j->", [(2, 3), (2,), (3,)]), ("abc,cd,db->a", [(2, 3, 4), (4, 5), (5, 3)]),
    ("...ab,...bc->...ac", [(7, 1, 2, 3), (6, 3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("ii,jj->ij", [(2, 2), (3, 3)]),
    ("ij,ik,il->jkl", [(2, 3), (2, 4), (2, 5)]), ("i,->i", [(0,), ()]),
    ("ij,jk", [(2, 0), (0, 3)]), ("abcd,badc->ca", [(2, 3, 4, 5), (3, 2, 5, 4)]),
    ("Ab,bC", [(2, 3), (3, 4)]), ("a...,...->a...", [(2, 3), (3,)]),
    ("ii,ij->j", [(3, 3), (3, 4)]), ("ijij->", [(2, 3, 2, 3)]),
]
SUMS = [
    *[call("einsum", s, *[r(*shape) for shape in shapes]) for s, shapes in EINSUM],
    *[call("einsum", s, *[r(*shape, dtype="i4") for shape in shapes]) for s, shapes in EINSUM[:24]],
    *[call("einsum", "ij,jk,kl->li", r(2, 3), r(3, 4), r(4, 2), optimize=o) for o in (
        True, False, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)])],
    call("einsum", "ij,jk,kl->li", r(2, 3), r(3, 4), r(4, 2), optimize="auto",
         reference=lambda *args, optimize: np.einsum(*args)),
    call("einsum", "ij,jk", r(2, 3, dtype="c8"), r(3, 4), tolerance=1e-4),
    call("einsum", "ij->j", r(2, 3, dtype="?"), reference=lambda s, x: x.any(0)),
    call("einsum", "i,i->i", r(3, dtype="?"), r(3, dtype="?")),
]
V5, M34 = r(5), r(3, 4)
NORMS = [
    *[call("linalg.norm", V5, p) for p in (None, 0, 1, -1, 2, 3, 0.5, np.inf, -np.inf)],
    *[call("linalg.norm", M34, p, a, k) for p in (None, 1, -1, np.inf, -np.inf)
      for a in (None, 0, (1, 0)) for k in (False, True)],
    *[call("linalg.norm", np.zeros(s, np.float32), p, derivative=False)
      for s in ((0, 3), (3, 0)) for p in (None, 1, np.inf)],
    *[call("linalg.norm", np.zeros(0, np.float32), p, derivative=False)
      for p in (None, 0, 1, 3, np.inf)],
    *[call(f"linalg.{name}", r(2, 3, 4), offset=k) for name in ("trace", "diagonal")
      for k in (-1, 0, 2)],
    call("linalg.trace", r(3, 4, dtype="i4"), dtype=np.float32),
    call("linalg.outer", r(3), r(2)), call("linalg.matmul", r(2, 3, 4), r(4, 2)),
    call("linalg.cross", r(2, 3), r(3)), call("linalg.cross", r(3, 4), r(3, 1), axis=0),
    call("linalg.tensordot", r(2, 3, 4), r(3, 4, 2)),
    call("linalg.tensordot", r(2, 3), r(3, 4), axes=((1,), (0,))),
    call("linalg.matrix_transpose", r(2, 3, 4)), call("linalg.vecdot", r(2, 3), r(3)),
    call("linalg.norm", M34, "fro"), call("linalg.norm", r(2, 3, 4)),
    call("linalg.norm", r(2, 3, 4), "fro", (0, 2)), call("linalg.norm", r(3, dtype="c8"), 1),
    call("linalg.norm", r(3, dtype="c8")), call("linalg.norm", np.arange(3)),
    *[call("linalg.vector_norm", M34, ord=p, axis=a) for p in (2, 3, np.inf) for a in (None, 1)],
    *[call("linalg.matrix_norm", r(2, 3, 4), ord=p) for p in ("fro", 1, np.inf)],
]
ROWS = [*PRODUCTS, *SUMS, *NORMS]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


def test_operator() -> None:
    x, y = r(2, 3), r(3, 2)
    for a, b in ((jnp.asarray(x), jnp.asarray(y)), (x, jnp.asarray(y)), (jnp.asarray(x), y)):
        np.testing.assert_allclose(np.asarray(a @ b), x @ y, rtol=1e-5)


def test_interleaved_operands() -> None:
    x, y = r(2, 3), r(3, 4)
    np.testing.assert_allclose(jnp.einsum(x, [0, 1], y, [1, 2], [2, 0]), (x @ y).T, rtol=1e-5)
    np.testing.assert_allclose(jnp.einsum(x, [0, 1], y, [1, 2]), x @ y, rtol=1e-5)
    np.testing.assert_allclose(jnp.einsum(x, [..., 0], x, [..., 0], [...]), (x * x).sum(1),
                               rtol=1e-5)


def test_vmap() -> None:
    x, y = r(5, 2, 3), r(5, 3, 4)
    for f in (jnp.matmul, jnp.dot, lambda a, b: jnp.einsum("ij,jk->ki", a, b),
              lambda a, b: jnp.tensordot(a, b, 1), jnp.kron,
              lambda a, b: jnp.einsum("ij,jk->", a, b)):
        np.testing.assert_allclose(
            np.asarray(mjax.vmap(f)(x, y)),
            np.stack([np.asarray(f(a, b)) for a, b in zip(x, y, strict=True)]), rtol=1e-5)


# ---- what jaxprs look like ---------------------------------------------------------------


def names(f: Any, *shapes: tuple[int, ...]) -> list[str]:
    jaxpr = mjax.make_jaxpr(f)(*[np.ones(s, np.float32) for s in shapes])
    return [e.primitive.name for e in jaxpr.eqns]


def test_one_dot_general_and_nothing_else() -> None:
    assert names(jnp.matmul, (2, 3), (3, 4)) == ["dot_general"]
    assert names(jnp.matmul, (5, 2, 3), (5, 3, 4)) == ["dot_general"]
    assert names(jnp.matmul, (5, 2, 3), (3, 4)) == ["dot_general"]
    for subscripts in ("ij,jk->ik", "ij,jk->ki", "ji,kj->ik"):
        assert names(lambda a, b, s=subscripts: jnp.einsum(s, a, b), (3, 3), (3, 3)) == [
            "dot_general"]
    assert names(lambda a, b: jnp.einsum("bij,bjk->bki", a, b), (5, 2, 3), (5, 3, 4)) == [
        "dot_general"]
    assert names(lambda a, b: jnp.einsum("ij,ij->ij", a, b), (2, 3), (2, 3)) == ["mul"]


def test_precision_and_preferred_element_type() -> None:
    x = np.ones((2, 2), np.float16)
    for f in (lambda **kw: jnp.matmul(x, x, **kw), lambda **kw: jnp.dot(x, x, **kw),
              lambda **kw: jnp.einsum("ij,jk", x, x, **kw), lambda **kw: jnp.inner(x, x, **kw),
              lambda **kw: jnp.tensordot(x, x, 1, **kw), lambda **kw: jnp.vdot(x, x, **kw),
              lambda **kw: jnp.vecdot(x, x, **kw)):
        assert f().dtype == np.float16
        assert f(preferred_element_type=np.float32).dtype == np.float32
        jaxpr = mjax.make_jaxpr(lambda f=f: f(precision="highest"))()
        (eqn,) = [e for j in (jaxpr, *subjaxprs(jaxpr)) for e in j.eqns
                  if e.primitive.name == "dot_general"]
        assert eqn.params["precision"] == (lax.Precision.HIGHEST, lax.Precision.HIGHEST)
    with pytest.raises(ValueError, match="precision 'bogus' is not understood"):
        jnp.matmul(x, x, precision="bogus")


def test_weak_types() -> None:
    weak = jnp.broadcast_to(2.0, (2, 2))
    for f in (jnp.matmul, jnp.dot, jnp.inner, jnp.outer, jnp.kron,
              lambda a, b: jnp.einsum("ij,jk", a, b), lambda a, b: jnp.einsum("ij,ij->ij", a, b)):
        assert f(weak, weak).weak_type
        assert not f(weak, np.ones((2, 2), np.float32)).weak_type


# ---- several matrices --------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [[(2, 9), (9, 3), (3,)], [(9,), (9, 3), (3, 4), (4, 2)],
                                    [(10, 1), (1, 10), (10, 10)], [(2, 3), (3, 2)], [(3,), (3,)]])
def test_multi_dot(shapes: list[tuple[int, ...]]) -> None:
    arrays = [r(*s) for s in shapes]
    np.testing.assert_allclose(np.asarray(multi_dot(arrays)), np.linalg.multi_dot(arrays),
                               rtol=1e-4, atol=1e-4)


def test_multi_dot_takes_the_cheapest_order() -> None:
    shapes = [(10, 1), (1, 10), (10, 1), (1, 10)]
    jaxpr = mjax.make_jaxpr(lambda *a: multi_dot(a))(*[r(*s) for s in shapes])
    assert max(a.size for e in jaxpr.eqns[:-1] for a in [e.outvars[0].aval]) == 10


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8])
def test_matrix_power(n: int) -> None:
    for x in (r(3, 3), r(2, 3, 3), r(3, 3, dtype="i4")):
        np.testing.assert_allclose(np.asarray(matrix_power(x, n)), np.linalg.matrix_power(x, n),
                                   rtol=1e-4, atol=1e-4)


def test_einsum_path() -> None:
    x = np.ones((2, 2))
    path, text = jnp.einsum_path("ij,jk,kl->il", x, x, x)
    assert path == [(0, 1), (0, 1)]
    assert "Complete contraction" in str(text)


M, V = np.ones((2, 3), np.float32), np.ones(4, np.float32)
ERRORS = [
    (ValueError, "input operand 0 must have ndim at least 1", lambda: jnp.matmul(2, M)),
    (TypeError, "matmul requires contracting dimensions to have the same shape, got 3 and 2: axis "
     "1 of the first operand, of shape (2, 3), and axis 0 of the second, of shape (2, 3)",
     lambda: jnp.matmul(M, M)),
    (TypeError, "dot requires contracting", lambda: jnp.dot(M, V)),
    (TypeError, "inner requires contracting", lambda: jnp.inner(M, V)),
    (ValueError, "leading axes (2,) and (3,) do not broadcast",
     lambda: jnp.matmul(np.ones((2, 2, 2)), np.ones((3, 2, 2)))),
    (TypeError, "tensordot requires contracting", lambda: jnp.tensordot(M, M, 1)),
    (TypeError, "equal length", lambda: jnp.tensordot(M, M, ((0, 1), (1,)))),
    (TypeError, "axes=3 exceeds the number of axes", lambda: jnp.tensordot(M, M, 3)),
    (ValueError, "axes must match", lambda: jnp.vecdot(M, V)),
    (ValueError, "x1 must have at least 2 axes", lambda: jnp.matvec(V, V)),
    (ValueError, "must have 2 or 3 components", lambda: jnp.cross(V, V)),
    (NotImplementedError, "immutable", lambda: jnp.outer(V, V, out=M)),
    (ValueError, "which may be vectors; got shapes [(2, 3), (1, 3, 3), (3,)]",
     lambda: multi_dot([M, np.ones((1, 3, 3)), V[:3]])),
    (ValueError, "(2, 3) and (2, 3) of neighbours do not fit", lambda: multi_dot([M, M])),
    (TypeError, "must be square, got shape (2, 3)", lambda: matrix_power(M, 2)),
    (TypeError, "position 0", lambda: jnp.dot([1, 2], V)),
    (ValueError, "invalid order 'fro' for a vector norm", lambda: jnp.linalg.norm(V, "fro")),
    (ValueError, "invalid order 3 for a matrix norm", lambda: jnp.linalg.norm(M, 3)),
    (ValueError, "improper number of axes", lambda: jnp.linalg.norm(np.ones((2, 2, 2)), "fro")),
    (ValueError, "linalg.outer takes vectors, got shapes (2, 2) and (2,)",
     lambda: jnp.linalg.outer(np.ones((2, 2)), np.ones(2))),
    (ValueError, "linalg.cross takes vectors of three elements, got shapes (2,) and (3,)",
     lambda: jnp.linalg.cross(np.ones(2), np.ones(3))),
    (ValueError, "at least two axes, got shape (3,)", lambda: jnp.linalg.trace(np.ones(3))),
    (ValueError, "the least element of an empty array of shape (0,)",
     lambda: jnp.linalg.norm(np.zeros(0), -np.inf)),
    (ValueError, "size of label 'j' for operand 1 (2) does not match previous terms (3)",
     lambda: jnp.einsum("ij,jk", M, M)),
    (ValueError, "'k' did not appear in the input", lambda: jnp.einsum("ij->k", M)),
    (ValueError, "'i' appeared more than once", lambda: jnp.einsum("ij->ii", M)),
    (ValueError, "Number of einsum subscripts, 2 in 'ij,jk', must be equal to the number of "
     "operands, 1", lambda: jnp.einsum("ij,jk", M)),
    (ValueError, "'ijk' in 'ijk' does not contain the correct number of indices for operand 0, "
     "which has 2 axes", lambda: jnp.einsum("ijk", M)),
    (ValueError, "the character '$'", lambda: jnp.einsum("i$j", M)),
    (NotImplementedError, "immutable", lambda: jnp.einsum("ij", M, out=M)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


@pytest.mark.parametrize(("shape", "axes"), [
    ((3, 4), (0, 1)), ((4, 3), (1, 0)), ((2, 3, 4), (-1, 1))])
def test_traces_of_traced_diagonals(shape, axes):
    x = np.arange(math.prod(shape), dtype=np.int8).reshape(shape)
    f = mjax.jit(lambda x, k: jnp.trace(x, k, *axes))
    for k in (-5, -1, 0, 2, 9):
        out = f(x, k)
        assert out.dtype == jnp.trace(x, 0, *axes).dtype
        np.testing.assert_array_equal(out, np.trace(x, k, *axes))
    for error in (TypeError, ValueError):
        for k in (1.0, True, np.array([1])):
            with pytest.raises(error, match="trace: k must be an integer"):
                f(x, k)
