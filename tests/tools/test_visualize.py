"""Pictures of shardings."""

import sys
import textwrap

import numpy as np
import pytest

import mjax
from mjax import P
from mjax.sharding import Mesh, NamedSharding

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))


def shown(capsys, x, **options):
    mjax.debug.visualize_array_sharding(x, **options)
    return capsys.readouterr().out


def picture(text):
    return textwrap.dedent(text).lstrip("\n")


def test_rows_and_columns(capsys):
    x = mjax.device_put(np.zeros((8, 4)), NamedSharding(MESH, P("y", "x")))
    assert shown(capsys, x) == picture("""
        ┌─────────┬─────────┬─────────┬─────────┐
        │  CPU 0  │  CPU 2  │  CPU 4  │  CPU 6  │
        ├─────────┼─────────┼─────────┼─────────┤
        │  CPU 1  │  CPU 3  │  CPU 5  │  CPU 7  │
        └─────────┴─────────┴─────────┴─────────┘
        """)


def test_copies_share_a_cell(capsys):
    x = mjax.device_put(np.zeros((8, 4)), NamedSharding(MESH, P("x")))
    assert shown(capsys, x).splitlines()[1] == "│ CPU 0,1 │"
    assert len(shown(capsys, x).splitlines()) == 9
    x = mjax.device_put(np.zeros(3), NamedSharding(MESH, P()))
    assert shown(capsys, x, min_width=5).splitlines()[1] == "│ CPU 0,1,2,3,4,5,6,7 │"


def test_one_dimension_is_a_row(capsys):
    x = mjax.device_put(np.zeros(8), NamedSharding(MESH, P("y")))
    assert shown(capsys, x).splitlines()[1] == "│ CPU 0,2,4,6 │ CPU 1,3,5,7 │"
    wide = shown(capsys, x, scale=2.0).splitlines()
    assert len(wide[1]) == 2 * 26 + 3
    assert len(shown(capsys, x, scale=9.0, max_width=40).splitlines()[1]) == 41


def test_many_rows_are_in_order(capsys):
    x = mjax.device_put(np.zeros((16, 1)), NamedSharding(MESH, P(("x", "y"))))
    cells = [line.strip("│ ") for line in shown(capsys, x).splitlines() if "CPU" in line]
    assert cells == [f"CPU {i}" for i in range(8)]


def test_colours_are_for_terminals(capsys, monkeypatch):
    x = mjax.device_put(np.zeros(8), NamedSharding(MESH, P("x")))
    plain = shown(capsys, x)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert shown(capsys, x, use_color=False) == plain
    coloured = shown(capsys, x)
    assert coloured.count("\x1b[48;5;") == 4 and coloured.count("\x1b[0m") == 4
    own = shown(capsys, x, color_map=lambda part: (part, 0.0, 1.0, 1.0))
    assert "\x1b[48;2;0;0;255m" in own and "\x1b[48;2;191;0;255m" in own


def test_what_cannot_be_shown():
    with pytest.raises(ValueError, match=r"of one or two dimensions can be shown, .* \(2, 2, 2\)"):
        mjax.debug.visualize_array_sharding(mjax.numpy.ones((2, 2, 2)))
    with pytest.raises(ValueError, match=r"not one of shape \(\)"):
        mjax.debug.visualize_sharding((), NamedSharding(MESH, P()))
    with pytest.raises(TypeError, match=r"expects a sharding, got .*Device.* SingleDeviceSharding"):
        mjax.debug.visualize_sharding((2, 2), mjax.devices()[0])
    with pytest.raises(TypeError, match="a string"):
        mjax.debug.visualize_array_sharding("a string")
    with pytest.raises(TypeError, match="use_colour"):
        mjax.jit(lambda x: mjax.debug.visualize_array_sharding(x, use_colour=False))(np.zeros(2))
    with pytest.raises(ValueError, match=r"of one or two dimensions can be shown, .* \(2, 2, 2\)"):
        mjax.jit(lambda x: mjax.debug.visualize_array_sharding(x))(np.zeros((2, 2, 2)))


def test_in_programs_it_shows_what_xla_chose(capsys):
    x = mjax.device_put(np.zeros((4, 8)), NamedSharding(MESH, P("x", "y")))

    def f(x):
        mjax.debug.visualize_array_sharding(x.T, use_color=False)
        return x.T

    out = mjax.jit(f)(x)
    inside = capsys.readouterr().out
    assert inside == shown(capsys, out) and "│  CPU 0  │  CPU 2  │  CPU 4  │" in inside


def test_of_a_batch_the_whole_is_shown(capsys):
    x = mjax.device_put(np.zeros((4, 8)), NamedSharding(MESH, P("x", "y")))
    expected = shown(capsys, x)
    for transform in (mjax.vmap, lambda f: mjax.jit(mjax.vmap(f))):
        transform(lambda row: (mjax.debug.visualize_array_sharding(row), row)[1])(x)
        assert capsys.readouterr().out == expected


def test_what_the_devices_do_not_divide(capsys):
    x = mjax.device_put(np.zeros((8, 8)), NamedSharding(MESH, P("x")))

    def f(x):
        mjax.debug.visualize_array_sharding(x[:6] * 2)
        return x.sum()

    assert mjax.jit(f)(x) == 0
    assert "│ CPU 0,1 │" in capsys.readouterr().out


def test_values_that_only_become_arrays(capsys):
    one = picture("""
        ┌─────────┐
        │  CPU 0  │
        └─────────┘
        """)
    mjax.debug.visualize_array_sharding(np.zeros(2))
    mjax.grad(lambda x: (mjax.debug.visualize_array_sharding(x), x.sum())[1])(np.zeros((2, 2)))
    with mjax.disable_jit():
        mjax.jit(lambda x: mjax.debug.visualize_array_sharding(x))(np.zeros(2))
    assert capsys.readouterr().out == 3 * one
