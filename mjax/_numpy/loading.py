"""Arrays from buffers, strings, iterables and files; arrays to files."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._numpy.creation import asarray


@boundary
def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """An array of the numbers in a buffer of bytes.

    Args:
      buffer: an object with the buffer protocol (bytes, bytearray, memoryview).
      dtype: dtype of the numbers in it.
      count: how many to read; -1: all.
      offset: where to start, in bytes.

    Returns:
      A vector.

    Raises:
      ValueError: the buffer is too small, or its size is not a multiple of the item size.

    Source: `numpy.frombuffer`.

    Example:
      >>> jnp.frombuffer(b"abc", dtype=jnp.uint8)
      Array([97, 98, 99], dtype=uint8)
    """
    dtype = dtypes.as_dtype(float if dtype is None else dtype)
    return asarray(np.frombuffer(buffer, dtype, count, offset))


@boundary
def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """An array of the numbers in a string.

    Args:
      string: the string.
      dtype: dtype of the numbers.
      count: how many to read; -1: all.
      sep: the separator; a space means any white space.

    Returns:
      A vector.

    Raises:
      ValueError: the string holds other text, or fewer numbers.

    Source: `numpy.fromstring`.

    Example:
      >>> jnp.fromstring("1 2 3", dtype=int, sep=" ")
      Array([1, 2, 3], dtype=int32)
    """
    dtype = dtypes.as_dtype(float if dtype is None else dtype)
    return asarray(np.fromstring(string, dtype, count, sep=sep))


@boundary
def fromiter(iter: Any, dtype: Any, count: int = -1) -> Any:
    """A vector of the numbers from an iterable.

    Args:
      iter: the iterable.
      dtype: dtype of the result.
      count: how many to take; -1: all.

    Returns:
      A vector.

    Raises:
      TypeError: `iter` is not iterable, an element not a number, `dtype` not a dtype of numbers, or
        `count` not an integer.
      ValueError: an element is a string that is not a number; there are fewer than `count`.
      OverflowError: a number is out of bounds for `dtype`.

    Source: `numpy.fromiter`.

    Example:
      >>> jnp.fromiter(range(3), dtype=int)
      Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtypes.as_dtype(dtype), count))


@boundary
def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Any:
    """A vector of the numbers in a file.

    Args:
      file: path or file object.
      dtype: dtype of the numbers in the file.
      count: how many to take; -1: all.
      sep: the separator in a text file; empty for bytes.
      offset: the number of bytes to skip first.

    Returns:
      A vector.

    Raises:
      OSError: the file does not exist or cannot be read, or `offset` is negative.
      AttributeError: `file` is neither a path nor a file.
      TypeError: `dtype` is not a dtype of numbers, `count` or `offset` not an integer, or `sep` not
        a string; there are both a `sep` and an `offset`.
      ValueError: a text file holds other text; the file is closed, or ends before `offset`.

    Source: `numpy.fromfile`.

    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile() as file:
      ...     _ = file.write(bytes([1, 2, 3])), file.flush()
      ...     jnp.fromfile(file.name, dtype="uint8")
      Array([1, 2, 3], dtype=uint8)
    """
    return asarray(np.fromfile(file, dtypes.as_dtype(dtype), count, sep, offset=offset))


@boundary
def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Writes an array to a file that `load` and `numpy.load` read.

    Args:
      file: path or file object.
      arr: array-like.
      allow_pickle: ignored: arrays do not hold objects.

    Raises:
      TypeError: `file` is neither a path nor a file.

    Source: `numpy.save`.

    Example:
      >>> import io
      >>> jnp.save(io.BytesIO(), jnp.array([1, 2]))
    """
    np.save(file, np.asarray(asarray(arr)), allow_pickle)


@boundary
def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Writes several arrays to one file that `load` and `numpy.load` read.

    Args:
      file: path or file object.
      args: arrays, which get the names "arr_0", "arr_1", ...
      allow_pickle: ignored: arrays do not hold objects.
      kwds: arrays by name.

    Raises:
      TypeError: `file` is neither a path nor a file.

    Source: `numpy.savez`.

    Example:
      >>> import io
      >>> jnp.savez(io.BytesIO(), weights=jnp.array([1, 2]))
    """
    arrays = {name: np.asarray(asarray(value)) for name, value in kwds.items()}
    np.savez(file, *[np.asarray(asarray(a)) for a in args], **arrays)  # type: ignore[arg-type]


@boundary
def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """An array from a file that `save` wrote.

    Args:
      file: path or file object.
      args, kwargs: further arguments of `numpy.load`.

    Returns:
      An array; of an archive (`.npz`), NumPy's lazy dictionary.

    Raises:
      TypeError: `file` is neither a path nor a file.

    Source: `numpy.load`.

    Example:
      >>> import io
      >>> file = io.BytesIO()
      >>> jnp.save(file, jnp.array([1, 2]))
      >>> _ = file.seek(0)
      >>> jnp.load(file)
      Array([1, 2], dtype=int32)
    """
    value = np.load(file, *args, **kwargs)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == np.dtype("V2"):
        # NumPy's format does not have a name for bfloat16 and stores its bytes.
        value = value.view(dtypes.bfloat16)
    return asarray(value)
