"""Public modules: names that load when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any, ForwardRef

from mjax._engine.base.folding import boundary


def face(module: str, *, later: Mapping[str, str] | None = None, rest: tuple[str, ...] = (),
         absent: str | None = None) -> None:
    """Gives a public module a `__getattr__` and a `__dir__`.

    Names of `__all__` that the module does not bind load when they are first used: from the modules
    that are named here, else they are its submodules. Type checkers do not see these functions, so
    they reject misspelt names; each face shows them its names in a block under `TYPE_CHECKING`.

    Args:
      module: its name.
      later: name -> the module that it is loaded from when it is first used.
      rest: modules that have other names of `__all__`. Those of one module load together, and
        before those of the next.
      absent: for a package, the module whose `why_absent(module, name)` gives the message for a
        name that one of its modules lacks.

    Example:
      >>> import mjax
      >>> mjax.__getattr__("numpy").__name__
      'mjax.numpy'
    """
    sources = later or {}
    if absent is not None:
        _EXPLAINED[module] = absent
    names = vars(sys.modules[module])
    settle(module, names)

    @boundary
    def load(name: str) -> Any:
        if name in sources:
            found = getattr(importlib.import_module(sources[name]), name)
            settle(module, {"__all__": [name], name: found})
            return names.setdefault(name, found)
        if name in names["__all__"]:
            if "__path__" in names and importlib.util.find_spec(f"{module}.{name}"):
                return importlib.import_module(f"{module}.{name}")
            for source in rest:
                others = vars(importlib.import_module(source))
                found = {key: others[key] for key in names["__all__"]
                         if key in others and key not in names}
                names.update(found)
                settle(module, {"__all__": list(found), **found})
                if name in names:
                    return names[name]
        text = f"module {module!r} has no attribute {name!r}"
        if not name.startswith("_") and (where := _EXPLAINED.get(module.partition(".")[0])):
            text = importlib.import_module(where).why_absent(module, name)
        raise AttributeError(text, name=name, obj=sys.modules[module])

    def show() -> list[str]:
        return sorted(names["__all__"])

    names.update(__getattr__=load, __dir__=show)


#: Package -> the module that explains why a name is absent.
_EXPLAINED: dict[str, str] = {}


def settle(module: str, names: Mapping[str, Any]) -> None:
    """Makes a public module the `__module__` of the functions and library classes it exports.

    Pickles then name the public module and stay valid when the code moves. Classes of the engine
    are left alone: they define how they are pickled.

    Args:
      module: its name.
      names: `__all__`, and the objects of the module with these names.
    """
    for name in names.get("__all__", ()):
        f = names.get(name)
        if type(f) is FunctionType and f.__module__.startswith(_PRIVATE):
            f.__module__ = module
            if names.get(f.__qualname__) is not f:
                f.__qualname__ = name
        elif isinstance(f, type) and f.__module__.startswith(_LIBRARIES):
            rehome(f, module)


def rehome(cls: type, module: str) -> None:
    """Makes a public module the `__module__` of a class.

    `typing.get_type_hints` still finds the names of its annotations, which are texts, where the
    class was written.

    Args:
      cls: the class.
      module: the module's name.

    Example:
      >>> import typing
      >>> from mjax.scipy.optimize import OptimizeResults
      >>> OptimizeResults.__module__, typing.get_type_hints(OptimizeResults)["nit"].__name__
      ('mjax.scipy.optimize', 'Array')
    """
    notes = vars(cls).get("__annotations__", {})
    for name, note in notes.items():
        text = note.__forward_arg__ if type(note) is ForwardRef else note  # of a NamedTuple
        if isinstance(text, str):
            notes[name] = ForwardRef(text, module=cls.__module__, is_class=True)
    cls.__module__ = module


_PRIVATE = "mjax._", "mjax_ext."
_LIBRARIES = "mjax._scipy.", "mjax._nn.", "mjax._library."

