"""Arguments of NumPy functions: converted in one place, once, on a short way to the dispatcher."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.tracing.interpreter import Tracer

ROOT = Path(mjax.__file__).parent
#: Folders in the order of imports.
LAYERS = ["_engine/base", "_engine/ir", "_engine/tracing", "_engine/primitives", "_engine/runtime",
          "_numpy"]
#: Modules that dispatch calls under evaluation, and equations.
DISPATCHERS = ("_engine/runtime/dispatch/", "_engine/tracing/")


def stands_for(value: Any, depth: int = 0) -> bool:
    """Whether a value is an array, or a sequence with one."""
    if isinstance(value, (dict, list, tuple)) and depth < 2:
        return any(stands_for(v, depth + 1)
                   for v in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, (np.ndarray, Tracer)) or type(value) is Array


class Way:
    """The functions of mjax that an array passes before it is with a dispatcher.

    Attributes:
      steps: pairs of files, that of a function that was given an array and that of its caller.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[str, str | None]] = []
        self.below: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "return" and frame is self.below:
            self.below = None
        name = self.name(frame)
        if event != "call" or self.below is not None or name is None:
            return
        code = frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(
            code.co_flags & 8)
        given = [frame.f_locals.get(n) for n in code.co_varnames[:count]]
        # A cache that stores an array (`put`) converts nothing.
        if code.co_name not in ("__init__", "put") and any(map(stands_for, given)):
            caller = frame.f_back
            while caller is not None and self.name(caller) is None:
                caller = caller.f_back
            self.steps.append((name, None if caller is None else self.name(caller)))
        if code.co_name == "process" or name.endswith("executable.py"):
            self.below = frame

    def name(self, frame: FrameType) -> str | None:
        path = Path(frame.f_code.co_filename.removesuffix("[written]"))
        return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else None

    def follow(self, f: Callable[..., Any], *args: Any) -> Any:
        sys.setprofile(self)
        try:
            return f(*args)
        finally:
            sys.setprofile(None)

    def files(self) -> set[str]:
        return {name for name, _ in self.steps if not name.startswith(DISPATCHERS)}

    def returns(self) -> set[tuple[str, str]]:
        """Calls from one folder into a later one; a dispatcher goes on with what it was given."""

        def layer(name: str) -> int:
            return next((i for i, folder in enumerate(LAYERS) if name.startswith(folder)), -1)

        return {(caller, name) for name, caller in self.steps if caller is not None
                and not caller.startswith(DISPATCHERS) and layer(name) > layer(caller)}


def way_of(f: Callable[..., Any], *shape: int) -> Way:
    """That of a first call and a later one, with an array and with NumPy's, and traced."""
    way = Way()
    for x in (np.ones(shape, np.float32), jnp.ones(shape)):
        for _ in range(3):
            way.follow(f, x)

    def traced(x: Any) -> int:
        way.follow(f, x)
        return 0

    mjax.make_jaxpr(traced)(jnp.ones(shape))
    return way


#: Call -> how many files an array passes at most.
CALLS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "sum": (lambda x: jnp.sum(x, axis=0), 6),
    "concatenate": (lambda x: jnp.concatenate([x, x]), 6),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), 6),
    "sort": (lambda x: jnp.sort(x), 6),
    "argmax": (lambda x: jnp.argmax(x, axis=0), 6),
    "add": (lambda x: jnp.add(x, x), 7),
    "matmul": (lambda x: jnp.matmul(x, x), 8),
    "clip": (lambda x: jnp.clip(x, 0.0, 1.0), 7),
    "where": (lambda x: jnp.where(True, x, 0.0), 8),
    "mean": (lambda x: jnp.mean(x, axis=0), 9),
    "var": (lambda x: jnp.var(x), 10),
    "einsum": (lambda x: jnp.einsum("ij,ij->", x, x), 10),
    "take": (lambda x: jnp.take(x, 1, axis=0), 12),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_pass_few_files(name: str) -> None:
    f, most = CALLS[name]
    size = 31 + [*CALLS].index(name)  # of which nothing is known
    way = way_of(f, size, size)
    assert len(way.files()) <= most, sorted(way.files())
    if most == 6:
        assert not way.returns()


class Holder:
    """Stands for an array, and counts how often it is asked."""

    asked = 0

    def __jax_array__(self) -> Any:
        self.asked += 1
        return jnp.array([[3.0, 1.0], [2.0, 4.0]])


FUNCTIONS = ["sum", "max", "mean", "var", "nansum", "nanmax", "argmax", "cumsum", "all", "sort",
             "argsort", "flip", "ravel", "reshape", "transpose", "squeeze", "diff", "median",
             "round", "tril", "diagonal", "sin", "negative", "linalg.det", "linalg.norm",
             "fft.fft", "clip"]
OPTIONS: dict[str, tuple[Any, ...]] = {"reshape": (-1,)}


def function(name: str) -> Callable[[Any], Any]:
    f: Any = jnp
    for part in name.split("."):
        f = getattr(f, part)
    return lambda x: f(x, *OPTIONS.get(name, ()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_stands_for_an_array_is_asked_once(name: str) -> None:
    f, expected = function(name), function(name)(Holder().__jax_array__())
    for call in (f, lambda x: mjax.jit(lambda: f(x))()):
        holder = Holder()
        np.testing.assert_allclose(call(holder), expected, rtol=1e-6)
        assert holder.asked == 1
    with mjax.disable_jit():
        np.testing.assert_allclose(f(Holder()), expected, rtol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_an_array_is_refused_by_name(name: str) -> None:
    f, last = function(name), name.rpartition(".")[2]
    for call in (f, lambda x: mjax.jit(lambda: f(x))()):
        for x in ([1.0, 2.0], (1.0,), "text", object(), np.array([None])):
            with pytest.raises(TypeError, match=f"{last} (requires ndarray or scalar|got a NumPy)"):
                call(x)
    with mjax.disable_jit(), pytest.raises(TypeError, match=f"{last} requires ndarray or scalar"):
        f([1.0, 2.0])


def test_optional_values_may_be_left_out_and_are_named_in_messages() -> None:
    x = jnp.ones(3)
    assert jnp.sum(x, initial=None, where=None) == 3
    for call, text in (
            (lambda: jnp.sum(x, where=[True, False, True]), "sum requires .* at argument 'where'"),
            (lambda: jnp.max(x, initial="a"), "max requires .* at argument 'initial'"),
            (lambda: jnp.clip(x, max=[1.0]), "clip requires .* at argument 'max'"),
            (lambda: jnp.sum(None), "sum requires .* <class 'NoneType'> at position 0"),
            (lambda: jnp.take(x, [1]), "take requires .* at position 1")):
        with pytest.raises(TypeError, match=text):
            call()
