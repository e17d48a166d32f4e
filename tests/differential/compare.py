"""Comparisons of results of mjax with those of jax.

A program takes the library, `jax` or `mjax`, and arguments: `lambda m, x: m.grad(m.numpy.sin)(x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import mjax

Program = Callable[..., Any]


def assert_equal_results(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    """The same tree of results: values, shapes, dtypes, weak types."""
    our_paths, our_tree = mjax.tree_util.tree_flatten_with_path(ours)
    their_paths, their_tree = jax.tree_util.tree_flatten_with_path(theirs)
    assert str(our_tree) == str(their_tree)
    for (path, a), (_, b) in zip(our_paths, their_paths, strict=True):
        where = f"result{mjax.tree_util.keystr(path)}"
        assert facts(a) == facts(b), f"{where} is {facts(a)} in mjax, {facts(b)} in jax"
        if getattr(b, "dtype", None) != jax.dtypes.float0:
            assert_close(a, b, tolerance, where)


def facts(x: Any) -> tuple[Any, ...]:
    """Shape, dtype and weak type of a result; the type of what is not an array.

    float0 and bool do not have a weak kind, though jax's flag may be set.
    """
    if not hasattr(x, "dtype"):
        return (type(x),)
    if x.dtype in (jax.dtypes.float0, bool):
        return x.shape, x.dtype.name
    return x.shape, str(x.dtype), getattr(x, "weak_type", False)


def assert_close(ours: Any, theirs: Any, tolerance: float, where: str) -> None:
    """Numbers equal, inexact ones to a tolerance relative to the largest of the array."""
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, where)
        return
    if str(a.dtype) in ("float16", "bfloat16"):
        tolerance = max(tolerance, 2e-2)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    np.testing.assert_allclose(a, b, rtol=tolerance, err_msg=where,
                               atol=tolerance * np.clip(finite.max(initial=0.0), 1e-3, 1.0))


def assert_agree(program: Program, *args: Any, tolerance: float = 2e-5) -> None:
    """A program gives the same results in both libraries."""
    assert_equal_results(program(mjax, *args), program(jax, *args), tolerance)


def primitive_names(jaxpr: Any) -> list[str]:
    """The primitives of a program in order, those inside of jit in its place."""
    names: list[str] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("jit", "pjit"):
            names += primitive_names(eqn.params["jaxpr"].jaxpr)
        else:
            names.append(eqn.primitive.name)
    return names


def assert_same_equations(program: Program, *args: Any) -> None:
    """The programs' jaxprs have the same primitives in the same order, and the same types."""
    ours, theirs = [m.make_jaxpr(lambda *xs, m=m: program(m, *xs))(*args) for m in (mjax, jax)]
    assert primitive_names(ours.jaxpr) == primitive_names(theirs.jaxpr), f"{ours}\n{theirs}"
    assert list(map(_type, ours.out_avals)) == list(map(_type, theirs.out_avals))


def _type(aval: Any) -> tuple[Any, ...]:
    return aval.shape, str(aval.dtype), aval.weak_type and aval.dtype != bool


def types_of(values: Sequence[Any]) -> str:
    """Types of arguments, for test names."""
    return ",".join(f"{np.asarray(v).dtype}{list(np.shape(v))}" if isinstance(v, np.ndarray)
                    else repr(v) for v in values)
