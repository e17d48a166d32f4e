"""Random programs under random transformations give in mjax what they give in jax."""

import jax
import numpy as np
import pytest

import mjax
from tests.differential import fuzzing

#: 150 programs, a few a test: most of their time is compilation.
SEEDS = range(150)
A_TEST = 3


@pytest.mark.parametrize("first", SEEDS[::A_TEST])
def test_programs(first):
    found = []
    for case, text in fuzzing.search(range(first, first + A_TEST), mjax):
        found.append(f"{text}\n{case}")
    assert not found, "\n\n".join(found)


def test_a_seed_makes_one_program():
    assert fuzzing.make(7) == fuzzing.make(7) != fuzzing.make(8)
    assert "seed 7" in str(fuzzing.make(7))


def test_differences_are_found_and_shrunk():
    """Of a program in which one operation is made wrong, that operation is left."""
    class Wrong:
        """A library whose sine is a cosine."""

        def __init__(self, module):
            self.module = module

        def __getattr__(self, name):
            if name in ("numpy", "lax"):
                return Wrong(getattr(self.module, name))
            return getattr(self.module, "cos" if name == "sin" else name)

    steps = [fuzzing.Step("numpy.exp", (0,)), fuzzing.Step("numpy.sin", (1,)),
             fuzzing.Step("x * 2", (2,))]
    case = fuzzing.Case(0, True, (fuzzing.Argument("float32", (3,), 1),), tuple(steps),
                        ("vmap", "jit"))
    wrong = Wrong(mjax)
    assert fuzzing.difference(case, mjax) is None
    assert fuzzing.difference(case, wrong).startswith("values")
    small = fuzzing.shrunk(case, lambda c: fuzzing.difference(c, wrong) is not None)
    assert [s.name for s in small.steps] == ["numpy.sin"]
    assert (small.transformations, small.x64, small.arguments[0].shape) == ((), False, ())


def test_programs_are_judged_by_the_values_they_meet():
    """Whether an operation is compared is asked of its operands, as far as these are known."""
    ones, zero = fuzzing.Argument("float32", (3,), 1), fuzzing.Argument("float32", None, 0.0)

    def case(*steps, x=ones, around=("grad",)):
        return fuzzing.Case(0, False, (x, ones), tuple(fuzzing.Step(*s) for s in steps), around)

    power, bits = ("numpy.power", (0, 1)), ("bits", (0,))
    assert fuzzing.judged(case(power, x=zero))
    assert not fuzzing.judged(case(power, x=zero, around=("jit",)))
    assert not fuzzing.judged(case(power))
    assert fuzzing.judged(case(power, around=("vmap", "grad")))
    assert not fuzzing.judged(case(bits))
    assert fuzzing.judged(case(("numpy.exp", (0,)), ("bits", (2,))))
    flags, root = fuzzing.Argument("bool", (3,), 1), ("lax.acosh", (0,))
    assert np.any(flags.make()) and not np.all(flags.make())
    assert fuzzing.judged(case(("numpy.fmod", (0, 0)), x=flags))
    assert not fuzzing.judged(case(("numpy.fmod", (0, 0)), x=fuzzing.Argument("", None, True)))
    assert fuzzing.judged(case(root, x=fuzzing.Argument("complex64", (3,), 2)))
    assert not fuzzing.judged(case(root, x=fuzzing.Argument("complex64", None, 2j)))
    assert not fuzzing.judged(case(("argmax", (0,)), x=fuzzing.Argument("complex64", (3,), 1),
                                   around=("jit", "vmap", "checkpoint")))
    assert fuzzing.differentiates_numbers(case(power, x=zero))
    assert not fuzzing.differentiates_numbers(case(power, x=fuzzing.Argument("", None, 2)))


@pytest.mark.parametrize("name", ["lax.add", "numpy.add", "numpy.lcm", "numpy.where"])
def test_operands_that_do_not_broadcast(name):
    """JAX has either class for them."""
    operands = np.zeros((2, 2), np.int32), np.zeros((0, 3), np.int32), np.zeros((3, 2), np.int32)
    refused(name, *operands[:fuzzing.OPERATIONS[name].arity])


@pytest.mark.parametrize("name", ["reversed", "cumprod backwards", "map", "product", "any"])
def test_axes_that_scalars_do_not_have(name):
    refused(name, True)


def test_arrays_of_unequal_shapes():
    for name in ("array([x, y])", "sort pairs"):
        refused(name, np.ones(3, np.float32), np.ones((), np.float32))


def refused(name, *operands):
    """An operation raises in mjax what it raises in jax, unless jax trips."""
    errors = []
    for m in (mjax, jax):
        with pytest.raises(Exception) as info:
            fuzzing.OPERATIONS[name].apply(m, *map(m.numpy.asarray, operands))
        errors.append(info.value)
    assert fuzzing.tripped(errors[1]) or fuzzing.compare(*errors) is None


def test_exceptions_are_compared():
    compare = fuzzing.compare
    assert compare(TypeError(), TypeError()) is None
    assert compare(ValueError(), TypeError()).startswith("exceptions")
    assert compare([np.ones(2)], ValueError("no")).startswith("jax raises")
    assert compare(ValueError("no"), [np.ones(2)]).startswith("mjax raises")
    assert compare([np.ones(2, np.float32)], [np.ones(2)]).startswith("types")
