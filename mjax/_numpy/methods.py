"""Operators and methods of arrays and tracers, set on both classes when mjax is imported.

The tables say where each of them is. It is loaded, and replaces what stands for it on the classes,
when it is first used: most programs use few, and `import mjax` loads none.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyAttributeError
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.reference import Ref

#: Operator of two operands -> its function, and its symbol in messages.
OPERATORS = {
    "add": ("arithmetic.add", "+"), "sub": ("arithmetic.subtract", "-"),
    "mul": ("arithmetic.multiply", "*"), "truediv": ("arithmetic.divide", "/"),
    "floordiv": ("arithmetic.floor_divide", "//"), "mod": ("arithmetic.remainder", "%"),
    "divmod": ("arithmetic.divmod", "divmod"), "pow": ("arithmetic.power", "**"),
    "matmul": ("products.matmul", "@"), "and": ("bits.bitwise_and", "&"),
    "or": ("bits.bitwise_or", "|"), "xor": ("bits.bitwise_xor", "^"),
    "lshift": ("bits.left_shift", "<<"), "rshift": ("bits.right_shift", ">>"),
}
#: The same for comparisons, which do not have a swapped form.
COMPARISONS = {
    "eq": ("comparison.equal", "=="), "ne": ("comparison.not_equal", "!="),
    "lt": ("comparison.less", "<"), "le": ("comparison.less_equal", "<="),
    "gt": ("comparison.greater", ">"), "ge": ("comparison.greater_equal", ">="),
}
#: Method -> the module of its function; the array is the first argument.
METHODS = {
    "all": "reductions", "any": "reductions", "argmax": "reductions", "argmin": "reductions",
    "argpartition": "sorting", "argsort": "sorting", "astype": "array_methods",
    "byteswap": "array_methods", "choose": "taking", "clip": "array_methods",
    "compress": "array_methods", "conj": "rounding", "conjugate": "rounding",
    "copy": "array_methods", "cumprod": "reductions", "cumsum": "reductions",
    "diagonal": "matrices", "dot": "products", "flatten": "array_methods", "max": "reductions",
    "mean": "statistics", "min": "reductions", "nonzero": "selecting", "prod": "reductions",
    "ptp": "reductions", "ravel": "shapes", "repeat": "joining", "reshape": "array_methods",
    "round": "rounding", "searchsorted": "searching", "sort": "sorting", "squeeze": "shapes",
    "std": "statistics", "sum": "reductions", "swapaxes": "shapes", "take": "taking",
    "to_device": "array_methods", "trace": "matrices", "transpose": "array_methods",
    "var": "statistics", "view": "array_methods",
}
#: Property -> its function of the array.
PROPERTIES = {
    "T": "shapes.transpose", "mT": "shapes.matrix_transpose", "real": "rounding.real",
    "imag": "rounding.imag", "at": "indexing.update._IndexUpdateHelper",
}
#: Special method -> its function.
SPECIAL = {
    "neg": "arithmetic.negative", "pos": "arithmetic.positive", "abs": "arithmetic.abs",
    "invert": "bits.invert", "round": "array_methods.round_to", "getitem": "indexing.read.getitem",
    "setitem": "array_methods.refuse_assignment", "contains": "array_methods.contains",
    "iter": "array_methods.iterate", "array_namespace": "array_methods.__array_namespace__",
}
#: Tracers may be references, so these differ: special method or property -> its function.
_TRACED = {"getitem": "references.traced_getitem", "setitem": "references.traced_setitem"}
_TRACED_AT = "references.traced_at"


def found(path: str) -> Any:
    """A function of the NumPy layer by its module and name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"mjax._numpy.{module}"), name)


class _Later:
    """Stands for an attribute of a class until it is first used.

    Args:
      cls: the class.
      name: the name of the attribute.
      find: gives what it stands for.
    """

    __slots__ = ("cls", "find", "name")

    def __init__(self, cls: type, name: str, find: Callable[[], Any]):
        self.cls, self.name, self.find = cls, name, find

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = self.find()
        held = vars(self.cls)[self.name]
        if hasattr(held, "instead"):  # Types may define it, too: `tracing.aval_attributes`.
            held.instead = value
        else:
            setattr(self.cls, self.name, value)
        return value.__get__(instance, owner)


def _operator(path: str, symbol: str, swapped: bool = False) -> Any:
    return found("operators.binary")(found(path), symbol, swapped)


def _property(path: str) -> property:
    return property(found(path))


def _attributes(special: dict[str, str], at: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All attributes: names, and functions that find them."""
    later = functools.partial
    for name, (path, symbol) in OPERATORS.items():
        yield f"__{name}__", later(_operator, path, symbol)
        yield f"__r{name}__", later(_operator, path, symbol, swapped=True)
    for name, (path, symbol) in COMPARISONS.items():
        yield f"__{name}__", later(_operator, path, symbol)
    for name, path in special.items():
        yield f"__{name}__", later(found, path)
    for name, module in METHODS.items():
        yield name, later(found, f"{module}.{name}")
    for name, path in {**PROPERTIES, "at": at}.items():
        yield name, later(_property, path)


def lacks(name: str, what: str) -> Callable[[Any], NoReturn]:
    """The getter of an attribute that a value does not have: it raises AttributeError."""
    def refuse(self: Any) -> NoReturn:
        raise LazyAttributeError(lambda: (
            f"a value of type {self.aval} does not have {name}: {what}{self.origin()}"))

    return refuse


for _name, _find in _attributes(SPECIAL, PROPERTIES["at"]):
    setattr(Array, _name, _Later(Array, _name, _find))
for _name, _find in _attributes(SPECIAL | _TRACED, _TRACED_AT):
    setattr(Tracer, _name, _Later(Tracer, _name, _find))
for _name in (METHODS | PROPERTIES).keys() - {"at"}:
    setattr(Ref, _name, property(lacks(_name, "read the reference with ref[...].")))
Tracer.__array_priority__ = 100  # type: ignore[attr-defined]
Tracer.nbytes = property(lambda self: typeof(self).size * self.dtype.itemsize)  # type: ignore[attr-defined]
Tracer.itemsize = property(lambda self: self.dtype.itemsize)  # type: ignore[attr-defined]
