"""How jitted functions are called."""

from __future__ import annotations

import functools
import gc

import pytest

from mjax._engine.base.jitted import PjitFunction, is_partial


def test_calls_hand_all_arguments_on():
    f = PjitFunction(lambda *args, **kwargs: (args, kwargs))
    for _ in range(100):
        assert f() == ((), {})
        assert f(1) == ((1,), {})
        assert f(1, 2, b=3) == ((1, 2), {"b": 3})
        assert f(*range(9), a=1) == (tuple(range(9)), {"a": 1})
        assert f.__get__(7)(8, c=9) == ((7, 8), {"c": 9})
        assert functools.partial(f, 1, d=2)(3) == ((1, 3), {"d": 2})
    assert list(map(f, [1, 2])) == [((1,), {}), ((2,), {})]
    with pytest.raises(ZeroDivisionError):
        PjitFunction(lambda: 1 / 0)()
    gc.collect()


def test_only_users_partials_are_taken_apart():
    assert is_partial(functools.partial(len))
    assert not is_partial(PjitFunction(len))
    assert not is_partial(len)
