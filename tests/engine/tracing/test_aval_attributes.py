import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import mjax
from mjax.experimental import hijax
from mjax_ext.core import Primitive, ShapedArray

_FAST = """
import mjax, mjax.numpy
from mjax._engine.ir.types import AbstractValue, ShapedArray
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax.experimental import hijax
from mjax_ext import core

class Mine(core.ShapedArray):
    pass

def slow(cls):
    return hasattr(cls, "__getattr__") or cls.__getattribute__ is not object.__getattribute__

def tracers(cls):
    return [cls, *(t for sub in cls.__subclasses__() for t in tracers(sub))]

mjax.make_jaxpr(mjax.vmap(mjax.grad(lambda x: x * x)))(mjax.numpy.ones(3))
assert len(tracers(Tracer)) > 3
assert not [c for c in [*tracers(Tracer), ShapedArray, Mine, Primitive] if slow(c)]
assert slow(hijax.HiType)
class Own(hijax.HiType):
    pass

assert all(map(slow, tracers(Tracer)))
"""


def test_classes_that_tracing_reads_have_no_getattr():
    """CPython specializes reading the attributes of classes without one."""
    subprocess.run([sys.executable, "-c", _FAST], check=True)


@dataclasses.dataclass(frozen=True)
class Pair(hijax.HiType):
    def __repr__(self):
        return "Pair()"


make_p, first_p = Primitive("make a pair"), Primitive("first of a pair")
make_p.def_abstract_eval(lambda x: Pair())
first_p.def_abstract_eval(lambda pair: ShapedArray((), "float32"))
Pair.first = hijax.aval_property(first_p.bind)
Pair.plus = hijax.aval_method(lambda pair, x, *, twice: first_p.bind(pair) + x * twice)


def refused(pair):
    raise AttributeError("refused")


Pair.refused = hijax.aval_property(refused)


def test_traced_values_have_the_attributes_of_their_types():
    jaxpr = mjax.make_jaxpr(lambda x: make_p.bind(x).plus(x, twice=2.0))(1.0)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == [
        "make a pair", "first of a pair", "mul", "add"]
    jaxpr = mjax.make_jaxpr(lambda x: make_p.bind(x).first)(1.0)
    assert jaxpr.eqns[-1].primitive is first_p


@pytest.mark.parametrize("name, message", [
    ("refused", "^refused"),
    ("other", "does not have the attribute 'other'"),
    ("dtype", r"a value of type Pair\(\) does not have dtype: it is not an array"),
])
def test_attributes_that_they_lack(name, message):
    def read(x):
        getattr(make_p.bind(x), name)

    with pytest.raises(AttributeError, match=message):
        mjax.make_jaxpr(read)(1.0)


@dataclasses.dataclass(frozen=True)
class Summed(hijax.HiType):
    sum = hijax.aval_method(lambda value, axis: ("sum", axis))
    T = hijax.aval_property(lambda value: "T")
    at = hijax.aval_property(lambda value: "at")
    item = hijax.aval_method(lambda value: "item")


def test_types_define_attributes_that_arrays_have():
    summed_p, seen = Primitive("make a sum"), []
    summed_p.def_abstract_eval(lambda x: Summed())

    def f(x):
        y = summed_p.bind(x)
        seen.extend([y.sum(1), y.T, y.at, y.item()])
        with pytest.raises(TypeError, match="does not have dtype: it is not an array"):
            y.prod()
        return x.sum(), x.T, x.at[0].add(1.0)

    for _ in range(2):
        jaxpr = mjax.make_jaxpr(f)(np.ones((2, 3), np.float32))
        assert [str(aval) for aval in jaxpr.out_avals] == [
            "float32[]", "float32[3,2]", "float32[2,3]"]
    assert seen == [("sum", 1), "T", "at", "item"] * 2


class Adding:
    _add = staticmethod(lambda x, y: ("add", y))
    _index = 3  # It is not a rule.


@dataclasses.dataclass(frozen=True)
class Sized(Adding, hijax.HiType):
    length: int
    sharding: str = "mine"

    def longer(self, by):
        return self.length + by

    _rmul = staticmethod(lambda x, y: ("rmul", y))
    _getitem = staticmethod(lambda x, i: ("getitem", i))
    _len = staticmethod(lambda x: x.length)
    _iter = staticmethod(lambda x: iter(range(x.length)))
    _bool = staticmethod(lambda x: x.length > 0)


ARRAY = mjax.numpy.float32(2)
sized_p = Primitive("make a size")
sized_p.def_abstract_eval(lambda x: Sized(3))


def test_traced_values_have_what_their_type_has():
    seen = []
    mjax.make_jaxpr(lambda x: seen.append(((y := sized_p.bind(x)).length, y.longer(2))))(1.0)
    assert seen == [(3, 5)]


@pytest.mark.parametrize(("apply", "expected"), [
    (lambda y: y + 1, ("add", 1)), (lambda y: 2 * y, ("rmul", 2)),
    (lambda y: ARRAY * y, ("rmul", ARRAY)),
    (lambda y: y[5], ("getitem", 5)), (len, 3), (list, [0, 1, 2]), (bool, True)])
def test_types_define_operators(apply, expected):
    seen = []
    mjax.make_jaxpr(lambda x: (seen.append(apply(sized_p.bind(x))), x + 1, 2 * x, x == x))(1.0)
    assert seen == [expected]


@pytest.mark.parametrize(("apply", "text"), [
    (lambda y: y.sharding, "cannot ask for sharding"),
    (lambda y: y - 1, "does not have dtype: it is not an array"),
    (lambda y: ARRAY - y, "does not have dtype: it is not an array"),
    (lambda y: range(y), "as a Python integer"),
    (lambda y: y.__array_interface__, "no attribute '__array_interface__'"),
])
def test_what_types_do_not_define_is_refused(apply, text):
    with pytest.raises((AttributeError, TypeError), match=text):
        mjax.make_jaxpr(lambda x: apply(sized_p.bind(x)))(1.0)


def test_arrays_do_not_have_them():
    with pytest.raises(AttributeError, match="no attribute 'first'"):
        mjax.make_jaxpr(lambda x: x.first)(1.0)
