"""Every flag of jax has its row, with jax's default; and those that act do as jax's."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import mjax
from mjax._flags.table import OPTIONS, SETTINGS

ROWS = {flag.name: flag for flag in (*SETTINGS, *OPTIONS)}
#: jax gives its enumerations, and mjax their values.
PLAIN = {"numpy_dtype_promotion": "standard", "explicit_x64_dtypes": "warn",
         "legacy_prng_key": "allow"}


def test_every_flag_has_its_row():
    names = {name.removeprefix("jax_") for name in jax.config.values}
    assert names - set(ROWS) == set()
    assert {row.name for row in ROWS.values() if row.foreign} - names == set()


@pytest.mark.parametrize("name", sorted(jax.config.values))
def test_defaults_agree(name):
    bare = name.removeprefix("jax_")
    assert ROWS[bare].default == PLAIN.get(bare, jax.config.values[name])
    assert mjax.config.values[name] is getattr(mjax.config, name)


def outcome(f, *args):
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = np.asarray(f(*args))
        return value.tolist(), [w.category for w in caught]
    except Exception as error:
        return type(error)


PROGRAMS = {
    "check_static_indices": (True, {
        "outside": lambda m: m.numpy.arange(4)[7], "before": lambda m: m.numpy.arange(4)[-5],
        "inside": lambda m: m.numpy.arange(4)[-4], "get": lambda m: m.numpy.arange(4).at[9].get(),
        "fill": lambda m: m.numpy.arange(4).at[9].get(mode="fill", fill_value=3),
        "array": lambda m: m.numpy.arange(4)[m.numpy.array([9])],
        "jitted": lambda m: m.jit(lambda x: x[7])(m.numpy.arange(4)),
        "second": lambda m: m.numpy.ones((2, 3))[1, None, 3]}),
    "random_seed_offset": (5, {
        "int": lambda m: m.random.key_data(m.random.key(3)),
        "largest": lambda m: m.random.key_data(m.random.key(2**31 - 1)),
        "array": lambda m: m.random.key_data(m.random.key(m.numpy.int32(7))),
        "raw": lambda m: m.random.PRNGKey(3),
        "jitted": lambda m: m.jit(m.random.PRNGKey)(3)}),
    "legacy_prng_key": ("error", {
        "uniform": lambda m: m.random.uniform(m.random.PRNGKey(0)),
        "split": lambda m: m.random.split(m.random.PRNGKey(0)),
        "typed": lambda m: m.random.uniform(m.random.key(0))}),
    "allow_f16_reductions": (False, {
        "f16": lambda m: m.lax.reduce_sum_p.bind(m.numpy.ones(3, "float16"), axes=(0,),
                                                 **({"out_sharding": None} if m is jax else {})),
        "of one": lambda m: m.lax.reduce_sum_p.bind(m.numpy.ones((1, 3), "float16"), axes=(0,), **(
            {"out_sharding": None} if m is jax else {})),
        "upcast": lambda m: m.numpy.sum(m.numpy.ones(3, "float16"))}),
    "no_tracing": (True, {"new": lambda m: m.jit(lambda x: x + 1)(1.0)}),
    "no_execution": (True, {"new": lambda m: m.jit(lambda x: x + 1)(1.0)}),
}


@pytest.mark.parametrize("flag, program", [(flag, name) for flag, (_, programs) in PROGRAMS.items()
                                           for name in programs])
def test_flags_do_as_in_jax(flag, program):
    value, programs = PROGRAMS[flag]
    found = []
    for m in (mjax, jax):
        before = getattr(m.config, "jax_" + flag)
        m.config.update("jax_" + flag, value)
        try:
            found.append(outcome(programs[program], m))
        finally:
            m.config.update("jax_" + flag, before)
    assert found[0] == found[1]


ASKED = {
    "zeros": lambda m: m.numpy.zeros(2, "float64"), "float": lambda m: m.numpy.zeros(2, float),
    "array": lambda m: m.numpy.array([1, 2], dtype=np.int64),
    "numpy": lambda m: m.numpy.asarray(np.arange(2.0)),
    "astype": lambda m: m.numpy.ones(2).astype(np.float64),
    "arange": lambda m: m.numpy.arange(3, dtype=np.int64),
    "cumsum": lambda m: m.numpy.cumsum(m.numpy.ones(2), dtype=np.float64),
    "convert": lambda m: m.lax.convert_element_type(m.numpy.ones(2), np.float64),
    "iota": lambda m: m.lax.iota(np.int64, 3), "full": lambda m: m.lax.full((2,), 1, np.float64),
    "linspace": lambda m: m.numpy.linspace(0, 1, 3, dtype=np.float64),
    "eye": lambda m: m.numpy.eye(2, dtype=np.complex128),
    "dot": lambda m: m.numpy.dot(m.numpy.ones(2), m.numpy.ones(2),
                                 preferred_element_type=np.float64),
    "bits": lambda m: m.lax.bitcast_convert_type(m.numpy.ones((2, 2), "uint32"), np.uint64),
    "struct": lambda m: m.eval_shape(lambda x: x, m.ShapeDtypeStruct((2,), np.float64))}


@pytest.mark.parametrize("mode", ["warn", "error", "allow"])
def test_64_bits_that_are_asked_for(mode):
    def outcomes(m):
        found = {}
        m.clear_caches()  # a program that is found again does not warn again
        for name, f in ASKED.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    found[name] = str(f(m).dtype), len(caught)
                except ValueError:
                    found[name] = "refused"
        return found

    found = []
    for m in (mjax, jax):
        m.config.update("jax_explicit_x64_dtypes", mode)
        try:
            found.append(outcomes(m))
        finally:
            m.config.update("jax_explicit_x64_dtypes", "warn")
    assert found[0] == found[1]


def test_legacy_keys_warn_at_each_call():
    for m in (mjax, jax):
        key = m.random.PRNGKey(0)
        with m.legacy_prng_key("warn"):
            for _ in range(2):
                with pytest.warns(UserWarning, match="uint32"):
                    m.random.uniform(key)


def test_contexts_of_users():
    counts = []
    for m in (mjax, jax):
        context, traces = m.make_user_context(5), []
        f = m.jit(lambda x, context=context, traces=traces: (traces.append(context.value), x)[1])
        for value in (1, 2, 1, None):
            with context(value):
                f(1.0)
                assert context.value == value
        f(1.0)
        context.set_global(8)
        f(1.0)
        counts.append((traces, context.get_global()))
        with pytest.raises(TypeError), context([1]):
            f(1.0)
    assert counts[0] == counts[1] == ([1, 2, None, 5, 8], 8)


def test_global_values_of_contexts_inside_of_others():
    found = []
    for m in (mjax, jax):
        a, b, seen = m.make_user_context(0), m.make_user_context(10), []

        def look(a=a, b=b, seen=seen):
            seen.append((a.value, b.value, a.get_global(), b.get_global()))

        with a(1):
            b.set_global(20)
            look()
            a.set_global(7)
            look()
            with b(3):
                b.set_global(30)
                look()
                with a(2):
                    look()
                look()
            look()
        look()
        found.append(seen)
    assert found[0] == found[1]
    assert found[0][0] == (1, 20, 0, 20)


def test_contexts_tell_values_apart_that_are_equal():
    context = mjax.make_user_context()
    f = mjax.jit(lambda x: x * context.value[0])
    for value, expected in ((0.0, "0.0"), (-0.0, "-0.0"), (2, "2"), (2.0, "2.0")):
        with context((value,)):
            assert str(f(1)) == expected


def test_captured_constants_warn():
    x = np.ones(100, np.float32)
    for m in (mjax, jax):
        captured = m.numpy.asarray(x)
        m.config.update("jax_captured_constants_warn_bytes", 100)
        try:
            with pytest.warns(UserWarning, match="constants"):
                m.jit(lambda y, captured=captured: captured + y)(x)
        finally:
            m.config.update("jax_captured_constants_warn_bytes", 2_000_000_000)
