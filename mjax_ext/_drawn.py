"""Arrays of a type, with random elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.primitives.keys import random_wrap_p


def drawn(random: np.random.Generator, aval: Any) -> Any:
    """Some array of a type; a Python number of a weak one without axes."""
    if aval.extended:
        shape = (*aval.shape, *aval.dtype.element_shape)
        data = random.integers(0, 2**31, shape).astype(aval.dtype.element_dtype)
        return random_wrap_p.bind(data, impl=aval.dtype._impl)
    kind = dtypes.kind(aval.dtype)
    if kind == "c":
        x = np.asarray(random.normal(size=aval.shape) + 1j * random.normal(size=aval.shape),
                       aval.dtype)
    elif kind == "f":
        x = np.asarray(random.normal(size=aval.shape), aval.dtype)
    else:
        x = np.asarray(random.integers(0, 2, aval.shape)).astype(aval.dtype)
    return x.item() if aval.weak_type and not aval.shape else x
