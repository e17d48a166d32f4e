"""The classes that users see: Python's own, or names of `mjax.errors`; texts built when shown."""

import copy
import pickle
import traceback

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base import errors
from mjax._engine.base.errors import LazyText
from mjax._engine.tracing.operands import OperandsVaryError
from mjax._engine.tracing.rule_errors import SymbolicValueError
from mjax_ext.core import Effect, EffectPolicy, Primitive

X = np.arange(3, dtype=np.float32)


def subclasses(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


OURS = sorted({c for c in subclasses(LazyText) if c.__module__ in ("builtins", "mjax.errors")},
              key=repr)


def test_there_are_some():
    assert {SymbolicValueError, OperandsVaryError, errors.LazyTypeError} < set(OURS)


@pytest.mark.parametrize("cls", OURS, ids=lambda c: c.__name__)
def test_what_is_shown_is_a_public_name(cls):
    error = cls(lambda: "what is wrong")
    shown = getattr(__import__(cls.__module__, fromlist=["_"]), cls.__qualname__)
    assert issubclass(cls, shown)
    (line,) = traceback.format_exception_only(error)
    prefix = "" if cls.__module__ == "builtins" else "mjax.errors."
    assert line == f"{prefix}{shown.__name__}: what is wrong\n"
    assert repr(error) == f"{shown.__name__}('what is wrong')"
    assert error.args == ("what is wrong",)


@pytest.mark.parametrize("cls", OURS, ids=lambda c: c.__name__)
def test_errors_travel_between_processes(cls):
    for twin in (pickle.loads(pickle.dumps(cls(lambda: "text"))), copy.copy(cls("text"))):
        # Not its text: Python's KeyError shows the `repr` of its argument.
        assert isinstance(twin, Exception) and twin.args == ("text",)
        assert type(twin).__name__ == cls.__name__ and type(twin).__module__ == cls.__module__


def test_every_named_error_is_exported():
    named = {c.__name__ for c in OURS if c.__module__ == "mjax.errors"}
    assert named <= set(mjax.errors.__all__)


def test_texts_are_built_once_and_only_when_shown():
    built = []
    error = errors.LazyValueError(lambda: built.append(1) or "text")
    assert not built
    assert (str(error), repr(error), error.args) == ("text", "ValueError('text')", ("text",))
    assert built == [1]


class Unlowerable(Effect):
    policy = EffectPolicy(lowerable=False, remat=False)


def odd(x):
    p = Primitive("odd")
    p.def_effectful_abstract_eval(lambda x: (x, {Unlowerable()}))
    return p.bind(x)


RAISED = [
    ("TypeError", lambda: lax.add(X, "a")),
    ("TypeError", lambda: mjax.grad(lambda x: (x, x), has_aux=False)(1.0)),
    ("ValueError", lambda: mjax.vmap(lax.add)(X, np.ones(2, np.float32))),
    ("ValueError", lambda: mjax.jit(odd)(X)),
    ("NameError", lambda: lax.axis_index("nowhere")),
    ("mjax.errors.TracerBoolConversionError", lambda: mjax.jit(bool)(1.0)),
    ("mjax.errors.MissingRuleError", lambda: Primitive("bare").bind(1.0)),
    ("mjax.errors.TypePromotionError",
     lambda: mjax.numpy.add(np.ones(2, "float8_e4m3fn"), np.ones(2, "float8_e5m2"))),
]


@pytest.mark.parametrize(("name", "call"), RAISED, ids=[name for name, _ in RAISED])
def test_names_in_tracebacks(name, call):
    with pytest.raises(Exception) as caught:
        call()
    assert traceback.format_exception_only(caught.value)[0].startswith(f"{name}: ")


def test_leaks_are_an_unexpected_tracer():
    leaked = []
    with mjax.checking_leaks(), pytest.raises(mjax.errors.UnexpectedTracerError,
                                              match=r"(?s)leaked.*float32\[3\].*as x"):
        mjax.jit(lambda x: leaked.append(x) or x)(X)
