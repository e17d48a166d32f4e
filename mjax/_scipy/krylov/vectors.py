"""Pytrees of arrays as vectors."""

from __future__ import annotations

import functools
import operator
from typing import Any

from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.pytree import tree_leaves, tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import imag, real
from mjax._numpy import products
from mjax._numpy.arithmetic import sqrt
from mjax._numpy.core import cast, weak_type_of

#: Products of vectors at full precision.
dot = functools.partial(products.dot, precision="highest")
_vdot = functools.partial(products.vdot, precision="highest")


def add(x: Any, y: Any) -> Any:
    """The sum."""
    return tree_map(operator.add, x, y)


def sub(x: Any, y: Any) -> Any:
    """The difference."""
    return tree_map(operator.sub, x, y)


def times(scalar: Any, x: Any) -> Any:
    """The multiple by a real or complex number; each array keeps its dtype."""
    real = not dtypes.is_complex(typeof(scalar).dtype)

    def scaled(leaf: Any) -> Any:
        dtype, weak = weak_type_of(leaf)
        return cast(scalar, dtypes.real_dtype(dtype) if real else dtype, weak) * leaf

    return tree_map(scaled, x)


def inner(x: Any, y: Any) -> Any:
    """The inner product, conjugate in `x`."""
    return functools.reduce(operator.add, tree_leaves(tree_map(_vdot, x, y)))


def real_inner(x: Any, y: Any) -> Any:
    """The real part of the inner product."""

    def product(x: Any, y: Any) -> Any:
        if not dtypes.is_complex(typeof(x).dtype):
            return _vdot(x, y)
        return _vdot(real(x), real(y)) + _vdot(imag(x), imag(y))

    return functools.reduce(operator.add, tree_leaves(tree_map(product, x, y)))


def norm(x: Any) -> Any:
    """The Euclidean norm."""
    return sqrt(real_inner(x, x))


def common(x: Any) -> tuple[Any, bool]:
    """The dtype, and the weak type, to which the arrays are promoted."""
    return common_type(*map(weak_type_of, tree_leaves(x)))
