"""Orders of arrays in memory, beside jax: the formats that come out, and what is refused."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

X = np.arange(6, dtype=np.float32).reshape(2, 3)
LIBRARIES = ("mjax", "jax")


class Library:
    """One of the two, with a format of columns and one of rows on its first device."""

    def __init__(self, name):
        self.m = importlib.import_module(name)
        layout = importlib.import_module(f"{name}.experimental.layout")
        here = self.m.sharding.SingleDeviceSharding(self.m.devices()[0])
        self.here = here
        self.rows, self.columns = (
            layout.Format(layout.Layout(order), here) for order in ((0, 1), (1, 0)))
        self.wrong = layout.Format(layout.Layout((2, 1, 0)), here)
        self.x = self.m.device_put(X, self.columns)


def order(x):
    np.testing.assert_array_equal(np.asarray(x), X)
    return x.format.layout.major_to_minor


PROGRAMS = {
    "put": lambda m: m.x,
    "put in the same sharding": lambda m: m.m.device_put(m.x, m.here),
    "put in rows": lambda m: m.m.device_put(m.x, m.rows),
    "put from rows": lambda m: m.m.device_put(m.m.device_put(X, m.rows), m.columns),
    "computed": lambda m: m.x + 0,
    "result": lambda m: m.m.jit(lambda x: x, out_shardings=m.columns)(X),
    "argument": lambda m: m.m.jit(lambda x: x + 0, in_shardings=m.columns)(m.x),
    "argument on no device": lambda m: m.m.jit(lambda x: x + 0, in_shardings=m.columns)(X),
    "copied": lambda m: m.m.numpy.array(m.x),
    "put in a program": lambda m: m.m.jit(lambda x: m.m.device_put(x, m.columns))(X),
    "inner jit": lambda m: m.m.jit(m.m.jit(lambda x: x + 0, out_shardings=m.columns))(X),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_orders(program):
    ours, theirs = (order(program(Library(name))) for name in LIBRARIES)
    assert ours == theirs


REFUSED = {
    "committed rows": lambda m: m.m.jit(lambda x: x, in_shardings=m.columns)(
        m.m.device_put(X, m.here)),
    "committed columns": lambda m: m.m.jit(lambda x: x, in_shardings=m.rows)(m.x),
    "rank of a value": lambda m: m.m.device_put(X, m.wrong),
    "rank of an argument": lambda m: m.m.jit(lambda x: x, in_shardings=m.wrong)(X),
    "rank of a result": lambda m: m.m.jit(lambda x: x, out_shardings=m.wrong)(X),
}


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("name", LIBRARIES)
def test_refusals(program, name):
    with pytest.raises(ValueError, match=r"layout|Layout"):
        program(Library(name))
