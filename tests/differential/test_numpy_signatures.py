"""Functions of mjax.numpy take the arguments of those of jax.numpy, under the same names."""

from __future__ import annotations

import inspect
from typing import Any

import jax.numpy
import pytest

import mjax.numpy

#: Arguments that only serve shardings in types, which do not exist here.
LEFT_OUT = {"out_sharding"}
#: Objects of class `ufunc`.
UFUNCS = {n for n in dir(jax.numpy) if isinstance(getattr(jax.numpy, n), jax.numpy.ufunc)}
#: Ours say more: jax has `*args` there.
MORE = {"array", "fromiter", "result_type", "set_printoptions"}


def functions() -> list[str]:
    return [n for n in mjax.numpy.__all__
            if callable(getattr(mjax.numpy, n)) and not inspect.isclass(getattr(mjax.numpy, n))]


def test_every_name_exists_in_jax() -> None:
    missing = [n for n in mjax.numpy.__all__ if not hasattr(jax.numpy, n)]
    assert not missing


@pytest.mark.parametrize("name", [n for n in functions() if n not in MORE])
def test_parameters(name: str) -> None:
    ours, theirs = (_parameters(getattr(m.numpy, name)) for m in (mjax, jax))
    assert ours == theirs


@pytest.mark.parametrize("name", mjax.numpy.linalg.__all__)
def test_parameters_of_linear_algebra(name: str) -> None:
    ours, theirs = (_parameters(getattr(m.numpy.linalg, name)) for m in (mjax, jax))
    assert ours == theirs


def _parameters(f: Any) -> list[tuple[str, str, Any]]:
    return [(p.name, p.kind.name, "a function" if inspect.isroutine(p.default) else repr(p.default))
            for p in inspect.signature(f).parameters.values() if p.name not in LEFT_OUT]


def test_ufuncs() -> None:
    assert {n for n in mjax.numpy.__all__
            if isinstance(getattr(mjax.numpy, n), mjax.numpy.ufunc)} == UFUNCS


@pytest.mark.parametrize("method", ["__init__", "__call__", "reduce", "accumulate", "at", "outer",
                                    "reduceat"])
def test_methods_of_ufuncs(method: str) -> None:
    ours, theirs = (_parameters(getattr(m.numpy.ufunc, method)) for m in (mjax, jax))
    assert ours == theirs
