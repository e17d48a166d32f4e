"""`make_user_context`: values of the user's that jitted functions may read."""

from __future__ import annotations

import pytest

import mjax


def test_a_value_for_a_thread_and_for_the_process():
    context = mjax.make_user_context("default")
    with context("here"):
        assert context.value == "here" and context.get_global() == "default"
    context.set_global("everywhere")
    try:
        assert context.value == context.get_global() == "everywhere"
    finally:
        context.set_global("default")
    assert context.value == "default"


def test_a_jitted_function_reads_the_value_in_force():
    context = mjax.make_user_context(1)
    f = mjax.jit(lambda x: x * context.value)
    assert f(3) == 3
    with context(2):
        assert f(3) == 6
    assert f(3) == 3


def test_the_flag_behind_it_is_not_set_by_name():
    with pytest.raises(AttributeError, match="it is set by a function of its own"):
        mjax.config.update("user_contexts", ())
    with pytest.raises(TypeError, match="unhashable"):
        mjax.make_user_context().set_global([])
