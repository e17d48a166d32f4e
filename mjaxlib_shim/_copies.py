"""Copies of NumPy arrays that a device may keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

__all__ = ["copies_of_shared"]

#: Bytes; the alignment that XLA needs for memory that it uses in place.
_ALIGNMENT: Final = 64


def copies_of_shared(values: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]] | None:
    """Copies of values of which some share memory; None if none do.

    jaxlib transfers one value per address, and from some release on fails
    (`bad_function_call`) if it may not read that memory later. So values that share memory
    get one common copy, which jaxlib may read.
    """
    views = [value.__array_interface__ for value in values]
    if len({view["data"][0] for view in views}) == len(views):
        return None
    ours: dict[Any, np.ndarray[Any, Any]] = {}
    keys = [(view["data"][0], view["strides"], view["shape"]) for view in views]
    for key, value in zip(keys, values, strict=True):
        if key not in ours:
            ours[key] = _aligned_copy(value)
    return [ours[key] for key in keys]


def _aligned_copy(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that a CPU device can use in place."""
    memory = np.empty(value.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNMENT
    elements = memory[start : start + value.nbytes].view(value.dtype)
    copy: np.ndarray[Any, Any] = elements.reshape(value.shape)
    copy[...] = value
    return copy
