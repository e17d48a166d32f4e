"""explain_cache_misses and log_compiles."""

import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.runtime.dispatch import explain

X = np.arange(3, dtype=np.float32)


@pytest.fixture
def logged(caplog):
    """The texts logged since the last call, one per record."""
    caplog.set_level(logging.WARNING, "mjax")

    def records():
        texts = [r.getMessage() for r in caplog.records if r.name == "mjax"]
        caplog.clear()
        return texts

    return records


class Odd:
    """A static value with this repr."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def scaled(tree, y=1.0, *, n=1):
    return tree["a"] * (n if isinstance(n, (int, float)) else 1) + y


@pytest.fixture
def f(logged):
    jitted = mjax.jit(scaled, static_argnames="n")
    jitted.clear_cache()
    jitted({"a": X}, 2.0)
    with mjax.explain_cache_misses():
        jitted({"a": X}, 2.0)
        assert logged() == []
        yield jitted


@pytest.mark.parametrize(("call", "expected"), [
    (lambda f: f({"a": X[:2]}, 2.0),
     "argument tree['a']: now float32[2], before float32[3] (shape)"),
    (lambda f: f({"a": X.astype("int32")}, 2.0),
     "argument tree['a']: now int32[3], before float32[3] (dtype)"),
    (lambda f: f({"a": X}, np.float32(2)),
     "argument y: now float32[], before ~float32[] (weak type)"),
    (lambda f: f({"a": X[:1]}, np.int32(2)),
     "argument y: now int32[], before ~float32[] (dtype, weak type)"),
    (lambda f: f({"a": X}, 2.0, n=3), "static argument 'n': now 3, before not given"),
    (lambda f: f({"a": X}),
     "structure of (args, kwargs): now PyTreeDef((({'a': *},), {})), before"),
    (lambda f: f({"a": X}, y=2.0), "structure of (args, kwargs): now"),
])
def test_why_a_function_is_traced_again(f, logged, call, expected):
    call(f)
    (text,) = logged()
    assert text.startswith(f"TRACING CACHE MISS of jit(scaled) at {__file__}:"), text
    assert "function scaled at" in text and expected in text, text
    call(f)
    assert logged() == []


def test_values_of_static_arguments(f, logged):
    f({"a": X}, 2.0, n=2)
    logged()
    for n, expected in [(3, "now 3, before 2"), (2.0, "now 2.0, before 3"),
                        (True, "now True, before 2.0"), (np.float32(2), f"now {np.float32(2)!r}"),
                        ((), "now (), before"), ((1, "a"), "now (1, 'a'), before ()"),
                        ((1, 2.5), "now (1, 2.5)"), ((2.5,), "now (2.5,)"), (1 + 2j, "now (1+2j)"),
                        (frozenset({3, 1}), "now frozenset({1, 3})"), (jnp.float32, "now "),
                        (Odd("a\n b"), "now a b, before"), (Odd("c" * 999), f"now {'c' * 200}..."),
                        (Odd(None), "now an object of Odd whose repr raises TypeError, bef")]:
        f({"a": X}, 2.0, n=n)
        (text,) = logged()
        assert f"static argument 'n': {expected}" in text, text


def test_reprs_of_the_closest_call_alone_are_made(f, logged):
    made = []

    class Slow(Odd):
        def __repr__(self):
            made.append(self)
            return "slow"

    for n in range(5):
        f({"a": X}, 2.0, n=Slow(n))
    assert len(made) == 2 * 5 - 1  # the first one is compared with a call without it


def test_large_structures_are_shown_where_they_differ(f, logged):
    many = {f"layer{i:03}": X for i in range(300)}
    f({"a": X, **many}, 2.0)
    logged()
    f({"a": X, **many, "layer250": (X, X)}, 2.0)
    (text,) = logged()
    (line,) = [line for line in text.splitlines() if "structure of (args, kwargs)" in line]
    assert "'layer250': (*, *)" in line and "'layer250': *" in line.partition("before ...")[2]
    assert len(line) < 600


def test_settings_and_named_axes(f, logged):
    with mjax.enable_x64(True):
        f({"a": X}, 2.0)
    assert "setting enable_x64: now True, before False" in logged()[0]
    mjax.vmap(lambda a: f({"a": a}, 2.0), axis_name="batch")(np.stack([X, X]))
    assert "named axes: now" in logged()[0]


def test_the_closest_call_is_compared_with(f, logged):
    f({"a": X[:2]}, 2)
    f({"a": X[:2]}, True)
    text = logged()[1]
    assert "argument y: now bool[], before ~int32[]" in text and text.count("now") == 1, text


def test_new_functions(logged):
    with mjax.explain_cache_misses():
        for expected in ("never traced before.", "Another function defined at the same place was"):
            mjax.jit(lambda x: x + 1)(X)
            (text,) = logged()
            assert expected in text and "test_explain.py" in text


def test_traces_inside_of_others(f, logged):
    with mjax.explain_cache_misses():
        mjax.jit(lambda a: f({"a": a}, 2.0))(X[:2])
    outer, inner = logged()
    assert "never traced" in outer and "argument tree['a']: now float32[2]" in inner


def test_compilation_for_another_place(f, logged):
    f({"a": mjax.device_put(X, mjax.devices()[0])}, 2.0)
    (text,) = logged()
    assert text.startswith("COMPILATION CACHE MISS of jit(scaled)"), text
    assert "argument tree['a']: now committed to" in text and "before uncommitted on" in text


def test_nothing_is_said_otherwise(logged):
    mjax.jit(lambda x: x + 1)(X)
    assert logged() == []


# ---- log_compiles ----------------------------------------------------------------------


def test_each_step_is_logged_with_its_time(logged):
    f = mjax.jit(lambda x: x * 3.0)
    with mjax.log_compiles():
        f(X)
        texts = logged()
        f(X)
        assert logged() == []
        f.lower(1.0).compile()
        assert len(logged()) == 4
    for text, start in zip(texts, (
            "Finished tracing <lambda> for jit in ",
            "Finished lowering jit(<lambda>) to StableHLO in ", "Compiling jit(<lambda>) for ",
            "Finished XLA compilation of jit(<lambda>) in "), strict=True):
        assert text.startswith(start), text
        assert text.startswith("Comp") or re.fullmatch(r"\d+\.\d{6} s", text.removeprefix(start))
    assert "arguments of types (float32[3])" in texts[2]
    f(1.0)
    assert logged() == []


def test_steps_are_debug_records_otherwise(caplog):
    caplog.set_level(logging.DEBUG, "mjax")
    mjax.jit(lambda x: x * 5.0)(X)
    assert len(caplog.records) == 4 and {r.levelname for r in caplog.records} == {"DEBUG"}


def test_single_operations_are_programs_too(logged):
    with mjax.log_compiles():
        mjax.clear_caches()
        mjax.lax.sin(X)
    assert any("XLA compilation of jit(sin)" in text for text in logged())


def test_warnings_reach_the_terminal_without_any_setup():
    code = "import mjax; mjax.jit(lambda x: x + 1)(1.0)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env={**os.environ, "JAX_LOG_COMPILES": "1"})
    assert "Finished XLA compilation of jit(<lambda>)" in done.stderr


def test_why_a_function_is_compiled_for_other_shardings(logged):
    mesh = mjax.make_mesh((4, 2), ("x", "y"))

    def put(*spec):
        value = np.zeros((8, 4), np.float32)
        return mjax.device_put(value, mjax.NamedSharding(mesh, mjax.P(*spec)))

    f = mjax.jit(lambda x: x + 1)
    f(put("x"))
    with mjax.explain_cache_misses():
        f(put("x"))
        assert logged() == []
        f(put("y"))
        (text,) = logged()
        f(put("y")), f(put("x"))
        assert logged() == []
    assert text.startswith("COMPILATION CACHE MISS of jit(<lambda>)")
    assert "argument x: now committed to NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P" in text
    assert f._cache_size() == 2


def test_durations_do_not_depend_on_the_clock(monkeypatch):
    seconds, spans = [], []
    times = iter([1000.0, 400.0, 300.0])  # it is set back
    monkeypatch.setattr(explain.time, "time", lambda: next(times))
    monkeypatch.setattr(explain, "record_event_duration_secs",
                        lambda event, duration, **_: seconds.append(duration))
    monkeypatch.setattr(explain, "record_event_time_span",
                        lambda event, start, end, **_: spans.append((start, end)))
    with explain.timed("%s took %s", "f", "/an/event"):
        pass
    assert 0 <= seconds[0] < 100
    assert spans == [(1000.0, 1000.0 + seconds[0])]
