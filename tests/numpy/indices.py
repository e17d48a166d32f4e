"""Index expressions, for the tests of reading and of writing."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPE = (3, 4, 5)
S = np.s_
_PAIR = np.array([2, 0])
_ROW = np.array([[1, -1, 0]])
_COLUMN = np.array([[0], [2]])
_MASK3 = np.array([True, False, True])
_MASK34 = np.arange(12).reshape(3, 4) % 5 < 2

#: Indices between the brackets, for an array of shape `SHAPE`.
BASIC: dict[str, Any] = {
    "int": 1, "negative int": -1, "NumPy int": np.int64(2), "NumPy 0-d": np.array(1),
    "ints": (1, 2), "all ints": (1, -2, 3), "int at the end": (..., 2), "empty tuple": (),
    "ellipsis": ..., "colon": S[:], "slice": S[1:3], "slice from the end": S[-2:],
    "slice to the end": S[:-1], "slice out of range": S[1:99], "empty slice": S[2:1],
    "slice below": S[-99:-98], "step": S[:, ::2], "step and start": S[:, 1::3],
    "reverse": S[::-1], "reverse some": S[:, 3:0:-1], "reverse with step": S[:, :, ::-2],
    "reverse to start": S[:, 2::-1], "reverse empty": S[:, 0:3:-1], "several slices": S[1:, :2, 3:],
    "int and slice": S[1, 1:3], "slice and int": S[1:, 2], "int, slice, int": S[0, :, 1],
    "new axis": None, "new axes": S[None, :, None, ..., None], "int and new axis": S[1, None],
    "slice, new, int": S[1:, None, 2], "new axis before int": S[None, 0],
    "ellipsis of no axes": S[1, :, ..., 2],
}
ADVANCED: dict[str, Any] = {
    "array": _PAIR, "negative array": np.array([-1, -3]), "2-d array": _ROW,
    "empty array": np.zeros((0,), int), "uint8 array": np.array([2, 1], np.uint8),
    "int8 array": np.array([-1], np.int8), "list in a tuple": ([0, 2], 1),
    "two arrays": (_PAIR, _PAIR), "broadcast": (_COLUMN, _ROW), "three": (_COLUMN, _ROW, 1),
    "adjacent behind slice": S[:, _PAIR, _PAIR], "separated by slice": S[_PAIR, :, _PAIR],
    "separated by new axis": S[_PAIR, None, _PAIR], "separated by ellipsis": S[_PAIR, ..., _PAIR],
    "ellipsis of no axes": S[_PAIR, _PAIR, ..., _PAIR], "array behind ellipsis": S[..., _PAIR],
    "int beside array": S[1, _PAIR], "int apart from array": S[1, :, _PAIR],
    "array apart from int": S[_PAIR, :, 1], "slice and array": S[1:, _PAIR],
    "array and slice": S[_PAIR, 1:3], "step and array": S[::2, _PAIR],
    "reverse and array": S[::-1, _PAIR], "reverse, step and array": S[:, ::-2, _ROW],
    "array between steps": S[::-2, _PAIR, ::3], "array and new axis": S[_PAIR, None],
    "new axis and array": S[None, _PAIR], "empty slice and array": S[0:0, _PAIR],
    "array, int, slice, new": S[_PAIR, 1, ..., None], "0-d beside array": (np.array(1), _PAIR),
    "mask": _MASK3, "mask of two axes": _MASK34, "mask and array": S[_MASK3, :, _PAIR],
    "mask and int": S[_MASK3, 1], "slice and mask": S[:, np.arange(4) > 1],
    "mask of everything": np.arange(60).reshape(SHAPE) % 7 == 0, "false mask": np.zeros(3, bool),
    "True": True, "False": False, "True behind slice": S[:, True], "True and array": S[True, _PAIR],
    "True apart from array": S[True, :, _PAIR], "list mask": ([True, False, True], 0),
}
ALL = {**{f"basic: {k}": v for k, v in BASIC.items()},
       **{f"advanced: {k}": v for k, v in ADVANCED.items()}}


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index made of everything, whose arrays broadcast together."""
    common = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        n = shape[axis]
        kind = rng.integers(0, 8)
        if kind == 0:
            items.append(None)
            continue
        if kind == 1:
            items.append(int(rng.integers(-n, n)))
        elif kind <= 4:
            bounds = [None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3))
                      for _ in range(2)]
            items.append(slice(*bounds, int(rng.choice([-3, -2, -1, 1, 2, 3]))))
        elif kind <= 6:
            own = tuple(1 if rng.random() < 0.3 else m for m in common[rng.integers(0, 3) :])
            items.append(rng.integers(-n, n, own))
        else:
            break
        axis += 1
    if axis < len(shape) and rng.random() < 0.7:
        items.insert(int(rng.integers(0, len(items) + 1)), ...)
    return tuple(items)
