"""Jitted functions as objects: their type, names and signatures, copies, references, methods."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
import types
import typing
import weakref

import jax
import numpy as np
import pytest

import mjax
from mjax.experimental.pjit import pjit


def base(x, /, y: int = 2, *, z=3) -> int:
    """Says."""
    return x + y + z


def objects(m):
    """A jitted function, and a class with others for methods."""

    class Owner:
        def __init__(self, k):
            self.k = k

        @functools.partial(m.jit, static_argnums=0)
        def method(self, x):
            return x + self.k

        @staticmethod
        @m.jit
        def static(x):
            return x * 2

        @classmethod
        @functools.partial(m.jit, static_argnums=0)
        def of_class(cls, x):
            return x * 3

        @property
        @functools.partial(m.jit, static_argnums=0)
        def prop(self):
            return np.float32(self.k)

        def plain(self, x):
            return x * self.k

        def __call__(self, x):
            return x - self.k

    class Heir(Owner):
        def method(self, x):
            return super().method(x) * 10

    return m.jit(base), Owner, Heir


#: Expressions in a jitted function f, its module m, and the classes Owner and Heir.
EXPRESSIONS = """
    type(f).__name__
    type(f).__qualname__
    f
    str(f)
    m.jit(f)
    m.jit(functools.partial(base, 1))
    m.jit(lambda x: x)
    m.jit(Owner(3).plain)
    functools.partial(f, 1)
    (f.__name__, f.__qualname__, f.__module__, f.__doc__, f.__annotations__, f.__wrapped__ is base)
    (inspect.signature(f), f.__signature__, inspect.signature(Owner(1).method))
    (inspect.signature(Owner.method), inspect.signature(Owner.of_class))
    f.__defaults__
    f.__code__
    f.__globals__
    (inspect.isfunction(f), inspect.isroutine(f), inspect.ismethoddescriptor(f), callable(f))
    (isinstance(f, type(m.jit(len))), isinstance(f, typing.Callable), inspect.ismethod(f))
    (inspect.unwrap(f) is base, inspect.unwrap(m.jit(f)) is base, inspect.getsource(f))
    (inspect.getdoc(f), typing.get_type_hints(f))
    (Owner(5).method(1), Heir(5).method(1), Owner.method(Owner(4), 1))
    (Owner.static(2), Owner(1).static(2), Owner.of_class(2), Owner(1).of_class(2), Owner(6).prop)
    (type(Owner(1).method), type(Owner(1).method.__func__).__name__, type(Owner.method).__name__)
    (f.__get__(None, Owner) is f, type(f.__get__(3)), f.__get__(3)(), Owner.static is Owner.static)
    Owner.method.lower(Owner(1), 1.0).compile()(1.0)
    (lambda o: (o.method == o.method, hash(o.method) == hash(o.method)))(Owner(1))
    (copy.copy(f)(1), copy.deepcopy({'a': f})['a'](1), type(copy.deepcopy(f)).__name__)
    (weakref.ref(f)() is f, len(weakref.WeakKeyDictionary({f: 1})), f in {f})
    (f == f, f == m.jit(base), f != m.jit(base), f == base, hash(f) == hash(m.jit(base)))
    (lambda g: (setattr(g, 'note', 3), g.note, setattr(g, '__doc__', 'd'), g.__doc__))(m.jit(base))
    (lambda g: (setattr(g, '__name__', 'new'), g.__name__, repr(g)))(m.jit(base))
    (lambda g: (g.__name__, g.__wrapped__ is f, inspect.signature(g)))(functools.wraps(f)(len))
    sorted(name for name in functools.wraps(f)(lambda *a: 1).__dict__ if name[:2] == '__')
    (functools.partial(f, 1, z=5)(y=1), functools.partial(f, 1).func is f)
    type('E', (), {'k': 2, 'g': functools.partialmethod(Owner.method, 3)})().g()
    [name(g) for g in (f, m.jit(f), m.jit(functools.partial(f)), m.jit(functools.partial(base)))]
    [names(m.grad(f)), names(m.vmap(f)), names(m.jit(f)), names(m.checkpoint(f))]
    [names(m.custom_jvp(f)), names(m.custom_vjp(f)), names(m.jacfwd(f)), names(m.named_call(f))]
    [hasattr(t(f), 'lower') for t in (m.grad, m.vmap, m.checkpoint, m.custom_jvp, m.jit)]
    f()
    f(1, 2, 3, 4)
    f(1, q=1)
    f('a')
    m.jit(lambda g, x: g(x), static_argnums=0)(f, 1)
    len(m.tree_util.tree_leaves(f))
    (m.tree_util.Partial(f, 1)(), m.tree_util.Partial(f, 1).func is f)
    (functools.singledispatch(f)(1), functools.lru_cache(f)(1), bool(f))
    (type(f.trace(1)).__name__, type(f.lower(1)).__name__, m.eval_shape(f, 1).shape)
    [hasattr(f, name) for name in ('lower', 'trace', 'eval_shape', 'clear_cache', '_cache_size')]
    pickle.loads(pickle.dumps(Owner(1).method))
    pickle.dumps(m.jit(lambda x: x))
"""


def names(f):
    return f.__name__, f.__qualname__, f.__module__, inspect.unwrap(f) is base


def told(m, expression):
    f, owner, heir = objects(m)
    name = lambda g: m.make_jaxpr(g)(1).eqns[0].params["name"]
    given = {**globals(), "typing": typing, "weakref": weakref, "m": m, "f": f, "Owner": owner,
             "Heir": heir, "name": name}
    try:
        value = eval(expression, given)
    except Exception as error:  # classes of errors are compared elsewhere
        return isinstance(error, TypeError) if expression.startswith("f(") else "an error"
    return re.sub(r" at 0x\w+|, dtype=\w+|, weak_type=True|Array|mjax|jax", "", repr(value))


@pytest.mark.parametrize("expression", [line.strip() for line in EXPRESSIONS.strip().split("\n")])
def test_jitted_functions_are_objects_of_one_kind(expression):
    assert told(mjax, expression) == told(jax, expression)


@mjax.jit
def found_by_name(x):
    return x + 1


def test_what_python_functions_do_besides():
    """JAX's have no pickles, and a copy is another function with caches of its own."""
    assert pickle.loads(pickle.dumps(found_by_name)) is found_by_name
    assert copy.copy(found_by_name) is copy.deepcopy(found_by_name) is found_by_name
    assert type(pjit(base)) is type(found_by_name)
    assert type(mjax.pmap(base)) is types.FunctionType is type(jax.pmap(base))
