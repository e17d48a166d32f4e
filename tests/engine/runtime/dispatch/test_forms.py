"""Functions that are written for one form of calls or results."""

import collections
import dataclasses
import functools
import threading
import traceback
from typing import Any

import numpy as np
import pytest

import mjax
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.runtime.arrays.transfer import from_scalar
from mjax._engine.runtime.dispatch.forms import taker_of
from mjax._engine.runtime.effects.pending import PendingArray

X = mjax.device_put(np.arange(3, dtype=np.float32))
Y = mjax.device_put(np.arange(4))
Pair = collections.namedtuple("Pair", "a b")
Other = collections.namedtuple("Other", "a b")


class Registered(collections.namedtuple("Registered", "a b")):
    """A namedtuple with a tree of its own: the second one comes first."""


mjax.tree_util.register_pytree_node(
    Registered, lambda r: ((r.b, r.a), None), lambda _, children: Registered(*children[::-1]))


@mjax.tree_util.register_dataclass
@dataclasses.dataclass
class Tagged:
    a: Any
    b: Any
    tag: Any = dataclasses.field(metadata={"static": True})


def given_to(take, args, kwargs):
    """The parts that a taker takes of a call."""
    return take(*[*args, NOT_GIVEN, NOT_GIVEN][:2], args[2:], kwargs)


def taken(args, kwargs=None, places=(), names=(), donated=()):
    """The parts that a call's own taker takes."""
    kwargs = kwargs or {}
    return given_to(taker_of(args, kwargs, places, names, donated), args, kwargs)


def test_values_are_in_the_order_of_the_leaves():
    for args, kwargs in (((X, Y), {}), ((), {}), (([X, (Y,), ()], None), {}), ((X,), {"y": Y}),
                         (({"b": X, "a": [Y]},), {"z": X, "k": {"d": Y, "c": None}}),
                         ((Pair(X, [Y]), Tagged(Y, (X,), "tag")), {"z": Tagged(X, 2.0, 1)}),
                         ((collections.OrderedDict(b=X, a=Y),), {})):
        leaves = mjax.tree.leaves((args, kwargs))
        key, values = taken(args, kwargs)
        arrays = [leaf for leaf in leaves if type(leaf) is not float]
        assert key[1:] == tuple(array._placement for array in arrays)
        assert [id(v) for v in values] == [
            id(leaf if type(leaf) is float else leaf._buffer) for leaf in leaves]
    host = np.ones(2)
    key, values = taken((host, 2.0))
    assert values[0] is host and values[1] == 2.0 and key[1:] == (host.dtype, (2,))


def test_calls_of_other_forms_are_not_taken():
    forms: list[tuple[Any, dict[str, Any]]] = [
        ((), {}), ((X,), {}), ((X, Y), {}), ((X,), {"y": Y}), ((X,), {"z": Y}), ((), {"x": X}),
        (([X],), {}), (((X,),), {}), (({"a": X},), {}), (({"b": X},), {}),
        (({"a": X, "b": Y},), {}), ((None,), {}), ((2.0,), {}), ((2,), {}), ((True,), {}),
        ((np.float32(2),), {}), ((np.ones(2),), {}), (([],), {}), (({},), {}), (([X, Y],), {}),
        ((X, [Y]), {}), ((Pair(X, Y),), {}), ((Pair(X, [Y]),), {}), ((Other(X, Y),), {}),
        ((Registered(X, Y),), {}), ((Tagged(X, Y, "a"),), {}), ((Tagged(X, Y, "b"),), {}),
        ((collections.OrderedDict(a=X, b=Y),), {}), ((collections.OrderedDict(b=X, a=Y),), {}),
        ((collections.defaultdict(list, a=X, b=Y),), {})]
    takers = [taker_of(args, kwargs, (), ()) for args, kwargs in forms]
    assert len(set(takers)) == len(forms)
    for i, take in enumerate(takers):
        for j, (args, kwargs) in enumerate(forms):
            assert (given_to(take, args, kwargs) is None) == (i != j), (forms[i], forms[j])
    for other in ({1: X}, 1j, "word", [X] * 300,
                  {"a": {1: X}}, np.array([X], object)[0].dtype):
        assert taker_of((other,), {}, (), ()) is None


def test_donated_scalars_are_arrays_of_their_own():
    from_scalar(2.5)
    shared = from_scalar(2.5)
    for donated in (("z",), (0,), ("k",), (0, "k")):
        _, values = taken((2.5, [2.5]), {"k": (2.5,)}, donated=donated)
        assert [v is shared._buffer for v in values] == [0 not in donated, True, "k" not in donated]


def test_keys_tell_static_values_apart():
    values = [1, True, 1.0, 0.0, -0.0, None, "1", (1, 2), (1, True), (1.0, 2), ((1,), 2), (), int]
    keys = [taken((X, value), places=(1,))[0] for value in values]
    keys += [taken((X,), {"n": value}, names=("n",))[0] for value in values]
    assert len(set(keys)) == len(keys)
    again = [taken((X, value), places=(1,))[0] for value in values]
    assert again == keys[:len(values)]


def test_arrays_that_are_computed_aside_are_of_the_form():
    """Their takers are those of arrays; they wait for the buffers."""
    go = threading.Event()
    aside = mjax.jit(lambda x: mjax.pure_callback(lambda x: go.wait(60) and x, x, x))
    take = taker_of(((X,),), {}, (), ())
    pending = aside(X)
    assert type(pending) is PendingArray
    threading.Timer(0.05, go.set).start()
    assert given_to(take, ((pending,),), {})[1] == [pending._buffer]


def test_forms_of_results_are_those_of_the_function():
    for f in (lambda x: (x, x + 1), lambda x: [x], lambda x: {"b": x, "a": (x * 2, None, ())},
              lambda x: Pair(x, [x]), lambda x: Registered(x, x + 1), lambda x: Pair((), None),
              lambda x: [Tagged(x, Pair(x, x), "tag")], lambda x: collections.OrderedDict(b=x, a=x),
              lambda x: collections.defaultdict(list, {"b": x, "a": x}),
              lambda x: (x,) * 3, lambda x: {2: x, 1: x}, lambda x: [x + i for i in range(210)],
              lambda x: {"it's \n": x},
              lambda x: functools.reduce(lambda inner, _: [inner], range(300), x)):
        jitted = mjax.jit(f)
        for _ in range(3):
            out = jitted(X)
            assert mjax.tree.structure(out) == mjax.tree.structure(f(X))
            assert type(out) is type(f(X))
            for given, expected in zip(mjax.tree.leaves(out), mjax.tree.leaves(f(X)), strict=True):
                np.testing.assert_array_equal(given, expected)


def test_errors_of_written_functions_show_no_engine_frames():
    f = mjax.jit(lambda d, n: (d["a"] * n, n), donate_argnums=0)
    for _ in range(3):
        gone = {"a": mjax.device_put(np.ones(3))}
        f(gone, X)
    with pytest.raises(RuntimeError, match=r"argument d\['a'\] of type") as caught:
        f(gone, X)
    assert {frame.filename for frame in traceback.extract_tb(caught.tb)} == {__file__}
