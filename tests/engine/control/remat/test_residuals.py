"""saved_residuals: types and origins of what a derivative keeps."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.config import override
from mjax.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals

X = np.ones(3, "float32")
CONST = mjax.device_put(np.arange(3, dtype="float32"))


def texts(f, *args, **kwargs):
    return [f"{aval.str_short(short_dtypes=True)} {text}"
            for aval, text in saved_residuals(f, *args, **kwargs)]


def matches(found, expected):
    """Each begins as expected, and if it is the output of something names this file."""
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start), text
        assert "test_residuals.py:" in text or " from the argument" in text or (
            text.endswith(("from a constant", "from a literal"))), text


def test_origins():
    def f(p, y, *, z):
        a = lax.mul(lax.sin(p["x"]), y)
        return lax.mul(lax.mul(a, CONST), lax.mul(mjax.jit(lax.exp)(a), z))

    matches(texts(f, {"x": X}, X, z=X), [
        "f32[3] from a constant",
        "f32[3] from the argument y",
        "f32[3] from the argument z",
        "f32[3] output of sin from ",
        "f32[3] output of cos from ",
        "f32[3] output of mul from ",
        "f32[3] output of jitted function 'exp' from ",
        "f32[3] output of mul from ",
    ])


def test_in_checkpoints():
    """Origins are looked up inside, through any number of levels."""
    policy = mjax.checkpoint_policies.save_any_names_but_these()

    def f(x, y):
        z = checkpoint_name(lax.sin(lax.mul(x, y)), "sine")
        return lax.exp(lax.cos(z))

    expected = ["f32[3] from the argument x", "f32[3] from the argument y"]
    matches(texts(mjax.checkpoint(f), X, X), expected)
    named = [*expected, "f32[3] named 'sine' from "]
    matches(texts(mjax.checkpoint(f, policy=policy), X, X), named)
    matches(texts(mjax.checkpoint(mjax.checkpoint(f), policy=policy), X, X), expected)
    matches(texts(lambda x, y: mjax.checkpoint(lambda x: mjax.checkpoint(f, policy=policy)(x, y))(
        x), X, X), expected)
    # The second keeps what the first gives.
    g = mjax.checkpoint(f, policy=policy)
    matches(texts(lambda x, y: g(g(x, y), y), X, X), [
        *named, "f32[3] output of exp from ", "f32[3] named 'sine' from "])


def test_bfloat16_is_looked_through():
    x = mjax.numpy.asarray(X, "bfloat16")
    policy = mjax.checkpoint_policies.save_only_these_names("sine")
    f = lambda x: lax.exp(checkpoint_name(lax.sin(x), "sine"))
    matches(texts(mjax.checkpoint(f, policy=policy), x),
            ["bf16[3] from the argument x", "bf16[3] named 'sine' from "])


def test_types_in_place_of_arguments():
    x = mjax.ShapeDtypeStruct((1000, 1000), "float32")
    matches(texts(lax.sin, x), ["f32[1000,1000] output of cos from "])
    assert texts(lambda x: lax.mul(x, 2.0), x) == []


def test_printed(capsys):
    print_saved_residuals(mjax.checkpoint(lambda x, y: lax.sin(lax.mul(x, y))), 1.0, X[0])
    assert capsys.readouterr().out == "f32[] from the argument x\nf32[] from the argument y\n"


@pytest.mark.parametrize(("call", "text"), [
    (lambda: saved_residuals(3, X), "saved_residuals expects a function, got 3"),
    (lambda: saved_residuals(lax.sin, {"a": "b"}),
     r"saved_residuals: argument\[0\]\['a'\] is not a valid array"),
    (lambda: print_saved_residuals(lambda *, x: x, x="b"),
     r"saved_residuals: keyword argument \['x'\] is not a valid array"),
])
def test_bad_input(call, text):
    with pytest.raises(TypeError, match=text):
        call()


# ---- log_checkpoint_residuals ----------------------------------------------------------


@pytest.fixture
def logged(caplog):
    """The texts logged since the last call, one per record."""
    caplog.set_level(logging.WARNING, "mjax")

    def records():
        texts = [r.getMessage() for r in caplog.records if r.name == "mjax"]
        caplog.clear()
        return texts

    return records


def layer(w, x):
    return lax.sin(checkpoint_name(lax.sin(lax.dot(w, x)), "y"))


def gradient(policy, jit=False):
    f = mjax.checkpoint(layer, policy=policy)
    grad = mjax.grad(lambda w, x: lax.reduce_sum(f(w, x), (0,)))
    (mjax.jit(grad) if jit else grad)(np.ones((3, 3), "float32"), X)


INPUTS = "remat-decorated function saving inputs with shapes:\n  float32[3,3]\n  float32[3]"


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("policy", "patterns"), [
    (None, [re.escape(INPUTS)]),
    (mjax.checkpoint_policies.save_only_these_names("y"),
     [re.escape(INPUTS), "and saving these intermediates:",
      r"  float32\[3\] named 'y' from \S*test_residuals.py:\d+ \(layer\)"]),
    (mjax.checkpoint_policies.everything_saveable,
     [r"remat-decorated function saving inputs with shapes:\n  float32\[3\]",
      "and saving these intermediates:",
      r"  float32\[3\] output of \w+ from \S*test_residuals.py:\d+ \(layer\)",
      r"  float32\[3\] output of \w+ from \S*test_residuals.py:\d+ \(layer\)"]),
])
def test_what_remat_saves_is_logged(logged, policy, patterns, jit):
    with override(log_checkpoint_residuals=True):
        gradient(policy, jit)
    text, = logged()
    assert re.fullmatch("\n".join(patterns), text), text
    gradient(policy)
    assert logged() == []


def test_the_log_has_a_record_per_differentiation(logged):
    f = mjax.checkpoint(lambda x: lax.sin(lax.sin(x)))
    mjax.config.update("jax_log_checkpoint_residuals", True)
    try:
        mjax.grad(lambda x: f(f(x)))(1.0)
        mjax.grad(lambda x: f(f(x)))(1.0)
        assert len(logged()) == 4
        mjax.grad(mjax.checkpoint(lambda x: lax.mul(x, 2.0)))(1.0)
        assert logged() == ["remat-decorated function saving nothing"]
    finally:
        mjax.config.update("jax_log_checkpoint_residuals", False)


def test_the_log_is_sorted_as_the_program_is_read(logged):
    def f(x):
        return lax.exp(
            lax.sin(x))

    with override(log_checkpoint_residuals=True):
        mjax.grad(mjax.checkpoint(
            f, policy=mjax.checkpoint_policies.everything_saveable))(1.0)
    lines = [int(n) for n in re.findall(r"test_residuals.py:(\d+)", logged()[0])]
    assert len(lines) == 2 and lines == sorted(lines, reverse=True)


def test_the_log_has_debug_records_otherwise(caplog):
    caplog.set_level(logging.DEBUG, "mjax")
    gradient(None)
    levels = [r.levelname for r in caplog.records if r.getMessage() == INPUTS]
    assert levels == ["DEBUG"]
