"""The memory of Buffers."""

from __future__ import annotations

import numpy as np
import pytest

from mjaxlib_shim.arrays import to_numpy
from mjaxlib_shim.memory import writable_view
from tests.shim.samples import values


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint64", "float16", "float64",
                                   "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_what_is_written_is_in_the_buffer(put, dtype, shape):
    value = values(np.dtype(dtype), shape)
    buffer = put(value)
    view = writable_view(buffer, shape, np.dtype(dtype))
    np.testing.assert_array_equal(view, value)
    view[...] = 1
    np.testing.assert_array_equal(to_numpy(buffer), np.ones(shape, dtype))


def test_deleted_buffers_are_refused(put):
    buffer = put(np.ones(3))
    buffer.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        writable_view(buffer, (3,), np.dtype(float))
