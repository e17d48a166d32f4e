"""saved_residuals: types and origins of what a derivative keeps."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals

X = np.ones(3, "float32")
CONST = mjax.device_put(np.arange(3, dtype="float32"))


def texts(f, *args, **kwargs):
    return [f"{aval} {text}" for aval, text in saved_residuals(f, *args, **kwargs)]


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
