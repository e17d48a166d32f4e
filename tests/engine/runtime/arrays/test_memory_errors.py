"""Programs that need more memory than any machine has."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.runtime.arrays.memory_errors import explain_memory
from mjax.errors import JaxRuntimeError

#: 16 TiB of float32.
COUNT = 1 << 42


def _line(function):
    return f"test_memory_errors.py:{function.__code__.co_firstlineno + 1}"


def _failure(call):
    with pytest.raises(JaxRuntimeError) as caught:
        call()
    return str(caught.value)


def test_a_call_of_a_program():
    alive = jnp.ones((1000, 300))
    f = mjax.jit(lambda small, large: jnp.broadcast_to(small.sum(), (COUNT,)) * large["a"][0, 0])

    def call():
        return f(jnp.ones(3), {"a": alive}).block_until_ready()

    first, *lines = _failure(call).splitlines()
    assert first.startswith(f"RESOURCE_EXHAUSTED: Out of memory allocating {4 * COUNT} bytes, in ")
    assert "in <lambda>, called at" in first and _line(call) in first
    arguments = lines[lines.index("The largest arguments:") + 1:][:2]
    assert arguments == ["  argument large['a'], float32[1000,300]: 1,200,000 bytes",
                         "  argument small, float32[3]: 12 bytes"]
    arrays = lines[lines.index("The largest arrays that are alive:") + 1:]
    assert 1 <= len(arrays) <= 5
    sizes = [int(line.split(": ")[1].removesuffix(" bytes").replace(",", "")) for line in arrays]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] >= alive.nbytes


def test_arrays_on_several_devices():
    mesh = mjax.make_mesh((4,), "i")
    spread = mjax.device_put(jnp.ones(1 << 21), mjax.NamedSharding(mesh, mjax.P("i")))
    gone = jnp.ones(1 << 22) + 1
    gone.delete()
    text = _failure(lambda: jnp.zeros((COUNT,)).block_until_ready())
    arrays = text.partition("The largest arrays that are alive:\n")[2].splitlines()
    assert f"  float32[2097152] on cpu:{spread.sharding.flat_devices[0].id} and 3 others: " \
        "8,388,608 bytes" in arrays
    assert all(re.fullmatch(r"  .* on cpu:.*: [\d,]+ bytes", line) for line in arrays)
    assert "float32[4194304]" not in text


def test_a_single_operation():
    def call():
        return jnp.zeros((COUNT,)).block_until_ready()

    text = _failure(call)
    assert _line(call) in text and "The largest arrays that are alive:" in text


def test_a_program_that_fails_after_its_call():
    """Its results are read elsewhere: it is found by what it needs."""
    count = 5 * COUNT  # no other program here needs so much

    @mjax.jit
    def big(x):
        return jnp.zeros((count,)) + jnp.linalg.norm(x @ x)

    try:
        out = big(jnp.ones((300, 300)))
    except JaxRuntimeError as error:  # it was fast enough
        assert "in big, called at" in str(error)
        return
    first, *lines = _failure(lambda: np.asarray(out)).splitlines()
    assert "in big, compiled for the call at " in first and ", whose results are read at" in first
    assert f"float32[{count}]" not in "\n".join(lines)  # the result is not alive


def test_programs_that_may_have_failed():
    count = 11 * COUNT

    def big(x):
        return jnp.zeros((count,)) + x.sum()

    def bigger(x):
        return jnp.zeros((2 * count,)) + x.sum(), jnp.zeros((count,))

    kept = [mjax.jit(f).lower(jnp.ones(3)).compile() for f in (big, bigger)]
    assert kept

    def text(size):
        cause = f"RESOURCE_EXHAUSTED: Out of memory allocating {size} bytes."
        return _failure(lambda: explain_memory(JaxRuntimeError(cause)))

    assert "in big, compiled for the call at " in text(4 * count)
    both = text(4 * count - 4)
    assert "in a program whose results are read at" in both
    rows = both.partition("Programs in memory that need as much:\n")[2].splitlines()[:2]
    assert [row.split(",")[0].strip() for row in rows] == ["bigger", "big"]  # the largest first
    assert all("test_memory_errors.py" in row for row in rows)
    assert "Programs" not in text(100 * count)


def test_values_that_are_moved():
    value = np.broadcast_to(np.float32(1), (COUNT,))
    mesh = mjax.make_mesh((1,), "i")
    for move in (lambda: mjax.device_put(value), lambda: jnp.asarray(value),
                 lambda: mjax.jit(lambda x: x)(value),
                 lambda: mjax.device_put(value, mjax.NamedSharding(mesh, mjax.P("i")))):
        text = _failure(move)
        assert f"bytes, for a value of type float32[{COUNT}] that is moved to a device, at " in text
        assert "test_memory_errors.py" in text and "The largest arrays that are alive:" in text


def test_other_errors_are_left_alone():
    explain_memory(JaxRuntimeError("INTERNAL: something else"))


def test_the_error_is_pickled_as_the_public_one():
    with pytest.raises(JaxRuntimeError) as caught:
        explain_memory(JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 5 bytes."))
    assert "in a program whose results are read at" in str(caught.value)
    assert type(pickle.loads(pickle.dumps(caught.value))) is JaxRuntimeError
