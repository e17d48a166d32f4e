"""Public functions and classes show how they are used; as a program: who does not."""

import doctest
import importlib
import inspect
import pkgutil

import mjax
import mjax_ext
from mjax import lax
from mjax import numpy as jnp

#: Objects without an example: the number only falls.
MOST = 61
#: Exceptions, and the classes that are NumPy's names of dtypes.
NOT_CALLED = (BaseException, jnp.generic)


def modules(name):
    """The public modules of a package, itself included."""
    module = importlib.import_module(name)
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if not found.name.startswith("_"):
            yield from modules(f"{name}.{found.name}")


def public():
    """The functions and classes of mjax that the faces show: object -> name."""
    names = {}
    for module in [*modules(mjax.__name__), *modules(mjax_ext.__name__)]:
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            home = getattr(value, "__module__", None) or ""
            ours = home.partition(".")[0] in ("mjax", "mjax_ext") and home != "mjax.numpy"
            if ours and callable(value) and not (
                    isinstance(value, type) and issubclass(value, NOT_CALLED)):
                names.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return {value: name for name, value in names.values() if value.__hash__}


def without():
    """The names of those whose docstring does not have an example."""
    return sorted(name for value, name in public().items() if ">>>" not in (value.__doc__ or ""))


def test_public_objects_have_examples():
    lacking = without()
    assert len(lacking) <= MOST, f"{len(lacking)} lack an example: {lacking}"


def test_the_examples_of_flags_run():
    """Their docstrings are made, so that nobody finds them in files."""
    names = [name for value, name in public().items()
             if inspect.isfunction(inspect.unwrap(value)) and value.__qualname__ == value.__name__
             and (value.__doc__ or "").startswith("Context manager: sets")]
    assert len(names) > 20
    for name in names:
        text = getattr(mjax, name.rpartition(".")[2]).__doc__
        test = doctest.DocTestParser().get_doctest(
            text, {"mjax": mjax, "jnp": jnp, "lax": lax}, name, None, None)
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0, name


if __name__ == "__main__":
    print("\n".join(without()))
