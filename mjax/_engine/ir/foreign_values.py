"""Values that are not arrays of ours: which of them are refused, and what their errors advise."""

from __future__ import annotations

from typing import Any

import numpy as np


def refuse_masked_array(value: Any) -> None:
    """Refuses NumPy's masked arrays: arrays do not have masks, so the mask would be lost.

    Raises:
      ValueError: the value is one.
    """
    if isinstance(value, np.ma.MaskedArray):
        msg = ("numpy masked arrays are not supported: arrays have no masks. Use .filled(value) "
               "for an array of the numbers, and the argument `where` of reductions for the mask.")
        raise ValueError(msg)


def is_foreign_array(x: Any) -> bool:
    """Whether a value is an array of another library that offers conversion."""
    return not isinstance(x, type) and hasattr(x, "dtype") and (
        hasattr(x, "__array__") or hasattr(x, "__dlpack__"))


def conversion(x: Any) -> str:
    """Says how an array of another library becomes one of ours."""
    if str(x.dtype).startswith("key<"):
        return ("Make keys of what key_data of that library gives, with mjax.random.wrap_key_data("
                "numpy.asarray(data)).")
    return "Convert it with mjax.numpy.asarray."


def instead(x: Any) -> str:
    """Says what to give in place of something that is not an array."""
    cls = type(x)
    if is_foreign_array(x):
        return (f"it belongs to another library ({cls.__module__.partition('.')[0]}). "
                f"{conversion(x)}")
    text = "give an array, a NumPy array or scalar, or a Python number"
    if isinstance(x, (list, tuple)):
        return f"{text} (convert lists with mjax.numpy.asarray)."
    if cls.__module__ == "builtins" or callable(x) or isinstance(x, type):
        return f"{text}."
    return (f"{text}. Objects that hold arrays are containers if their class is registered by "
            "mjax.tree_util.register_dataclass or register_pytree_node_class.")
