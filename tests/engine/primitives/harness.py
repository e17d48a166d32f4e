"""What a correct primitive is: a table of cases, and the checks that each of them must pass.

A case names a primitive, the function users call, and a NumPy function that says what it computes:

    CASES = [
        Case("sin", lax.sin, np.sin, "T[3]; T[]; T[0,2]", T="f32 f64 c64"),
        Case("mul", lax.mul, np.multiply, "T[2,3] T[2,3]; T[2,1] T[]", linear=[(0,), (1,)]),
    ]

    @table(CASES)
    def test_elementwise(check, sample):
        check(sample)

`test_registry.py` finds the lists named CASES and asks for a case of every primitive there is.
"""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import mjax

Array = np.ndarray[Any, Any]
#: (rng, shape, dtype) -> an operand.
Draw = Callable[[np.random.Generator, tuple[int, ...], np.dtype], Array]

# ---- cases -----------------------------------------------------------------------------

DTYPES = {
    "bool": np.dtype(bool), "bf16": np.dtype(ml_dtypes.bfloat16),
    **{f"f{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
    **{f"c{8 * n}": np.dtype(f"c{n}") for n in (8, 16)},
    **{f"{k}{8 * n}": np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8)},
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
WIDEST = {"f": np.dtype("f8"), "c": np.dtype("c16")}


def kind(dtype: np.dtype) -> str:
    """b, i, u, f or c; bfloat16 is a float."""
    return "f" if dtype == DTYPES["bf16"] else dtype.kind


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Normal floats and complex numbers, small integers, booleans."""
    if kind(dtype) in "fc":
        x = rng.normal(size=shape)
        return np.asarray(x + 1j * rng.normal(size=shape) if kind(dtype) == "c" else x, dtype)
    low, high = {"b": (0, 2), "u": (0, 10), "i": (-5, 6)}[kind(dtype)]
    return np.asarray(rng.integers(low, high, shape), dtype)


@dataclass(frozen=True)
class Case:
    """A row of a table.

    Args:
      primitive: the name of the primitive.
      function: a function of the operands alone; gives an array or a sequence of arrays.
      reference: the same in NumPy. It is given inexact operands at 64 bits, so that its results
        are more exact than what is compared with them. None: nothing to compare with.
      operands: their types, as `"T[2,3] i32[]"`, with `T` for each dtype of the row; alternatives
        after semicolons.
      T: dtypes to go through.
      draw: makes the operands; a sequence has one function for each of them.
      result: dtypes of the results, as `"T i32"`; by default those of the reference, at the width
        of the operands.
      native: the reference is given the operands as they are.
      linear: groups of operands in which the function is jointly linear.
      order: up to which order derivatives are checked; 0: it has none.
      tolerance: in units of the dtype's precision.
      label: tells rows of one primitive apart.
    """

    primitive: str
    function: Callable[..., Any]
    reference: Callable[..., Any] | None
    operands: str
    T: str = "f32"
    draw: Draw | Sequence[Draw] = normal
    result: str | None = None
    native: bool = False
    linear: Sequence[tuple[int, ...]] = ()
    order: int = 2
    tolerance: float = 20
    label: str = ""

    def samples(self, widened: bool = False) -> Iterator[Sample]:
        """Every alternative for the first dtype, the first alternative for the other dtypes.

        Args:
          widened: floats and complex numbers at 64 bits, every alternative for each; and nothing
            where there are none.
        """
        alternatives = [types.split() for types in self.operands.split(";")]
        names = self.T.split()
        if widened:
            names = list(dict.fromkeys(map(_widen, names)))
            alternatives = [[_widen(t) for t in types] for types in alternatives]
        for i, name in enumerate(names):
            for types in alternatives if widened or i == 0 else alternatives[:1]:
                sample = Sample(self, tuple(t.replace("T", name) for t in types), name)
                if not widened or sample.inexact:
                    yield sample


def linear(name: str, operands: str, function: Callable[..., Any], reference: Callable[..., Any],
           **fields: Any) -> Case:
    """A case of a primitive that is linear in its operands of type T together."""
    first = [t for t in operands.split(";")[0].split() if t.startswith("T")]
    return Case(name, function, reference, operands, linear=[tuple(range(len(first)))], order=1,
                **fields)


def _widen(name: str) -> str:
    """`f64[3]` for `f32[3]`: finite differences need the digits."""
    element, bracket, shape = name.partition("[")
    if element in DTYPES and kind(DTYPES[element]) in "fc":
        element = NAMES[WIDEST[kind(DTYPES[element])]]
    return element + bracket + shape


class Sample(NamedTuple):
    """A case with the types of its operands settled."""

    case: Case
    types: tuple[str, ...]
    T: str

    def __str__(self) -> str:
        label = f"({self.case.label})" if self.case.label else ""
        return f"{self.case.primitive}{label}-{','.join(self.types) or self.T}"

    @property
    def avals(self) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of each operand."""
        pairs = [t.rstrip("]").split("[") for t in self.types]
        return [(tuple(map(int, shape.split(","))) if shape else (), DTYPES[name])
                for name, shape in pairs]

    @property
    def inexact(self) -> list[int]:
        """The operands that have derivatives."""
        return [i for i, (_, dtype) in enumerate(self.avals) if kind(dtype) in "fc"]

    @property
    def x64(self) -> bool:
        """Whether 64-bit types have to be switched on."""
        names = " ".join((*self.types, self.T, self.case.result or ""))
        return bool(re.search(r"[iuf]64|c128", names))

    def rng(self) -> np.random.Generator:
        """Random numbers that are the same in each run."""
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def operands(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> list[Array]:
        """New operands, each with these leading batch axes."""
        draws = self.case.draw
        each = [draws] * len(self.types) if callable(draws) else draws
        out = []
        for draw, (shape, dtype) in zip(each, self.avals, strict=True):
            drawn = [draw(rng, shape, dtype) for _ in np.ndindex(*batch)]
            out.append(np.reshape(np.asarray(drawn, dtype), (*batch, *shape)))
        return out

    def call(self, *operands: Any) -> list[Any]:
        """The function's results as a list."""
        return leaves(self.case.function(*operands))

    def restricted(self, group: Sequence[int], operands: Sequence[Any]) -> Callable[..., Any]:
        """The inexact results as a function of some operands, the others held fixed."""

        def f(*some: Any) -> tuple[Any, ...]:
            given = dict(zip(group, some, strict=True))
            outs = self.call(*[given.get(i, x) for i, x in enumerate(operands)])
            return tuple(out for out in outs if kind(out.dtype) in "fc")

        return f

    def expected(self, operands: Sequence[Array]) -> list[Array]:
        """The reference's results in the dtypes the function should give."""
        if not self.case.native:
            operands = [x.astype(WIDEST[kind(x.dtype)]) if kind(x.dtype) in "fc" else x
                        for x in operands]
        assert self.case.reference is not None
        with np.errstate(all="ignore"):
            outs = [np.asarray(out) for out in leaves(self.case.reference(*operands))]
            return [out.astype(dtype) for out, dtype in zip(outs, self._dtypes(outs), strict=True)]

    def _dtypes(self, outs: Sequence[Array]) -> list[np.dtype]:
        if self.case.result is not None:
            return [DTYPES[name.replace("T", self.T)] for name in self.case.result.split()]
        given = {kind(dtype): dtype for _, dtype in reversed(self.avals)}
        if "f" in given:
            given.setdefault("c", DTYPES["c128" if given["f"] == DTYPES["f64"] else "c64"])
        elif "c" in given:
            given["f"] = DTYPES["f64" if given["c"] == DTYPES["c128"] else "f32"]
        return [given.get(kind(out.dtype), out.dtype) for out in outs]


def leaves(out: Any) -> list[Any]:
    """One result or several as a list."""
    return list(out) if isinstance(out, (tuple, list)) else [out]


# ---- comparing -------------------------------------------------------------------------


def precision(arrays: Sequence[Any]) -> float:
    """The machine epsilon of the coarsest of some arrays."""
    floats = [np.dtype(x.dtype) for x in arrays if kind(np.dtype(x.dtype)) in "fc"]
    return max((float(ml_dtypes.finfo(dtype).eps) for dtype in floats), default=0.0)


def assert_same(actual: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    """Equal numbers, shapes and dtypes of results; values up to a tolerance for inexact ones."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        assert_close(a, e, tolerance)


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    """Values equal up to a tolerance, relative for large ones; integers exactly."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    inexact = kind(expected.dtype) in "fc"
    wide = WIDEST[kind(expected.dtype)] if inexact else expected.dtype
    tolerance = tolerance if inexact else 0
    np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=tolerance,
                               atol=tolerance)


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Adds to any failure what was being checked."""
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise


def pairing(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The bilinear form under which transposes are taken: no factor is conjugated."""
    return sum(float(np.sum(np.asarray(x) * np.asarray(y)).real)
               for x, y in zip(xs, ys, strict=True))


def subsets(indices: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The non-empty subsets."""
    for size in range(1, len(indices) + 1):
        yield from itertools.combinations(indices, size)


def primitive_names(jaxpr: Any) -> list[str]:
    """The primitives of a program in order, those inside of jit in its place."""
    names: list[str] = []
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr") if eqn.primitive.name in ("jit", "pjit") else None
        names += primitive_names(inner.jaxpr) if inner is not None else [eqn.primitive.name]
    return names


# ---- checks ----------------------------------------------------------------------------

Check = Callable[[Sample], None]
#: Half the time of a test goes into machine code that runs once.
UNOPTIMIZED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def check(rule: Check) -> Check:
    """Decorator of checks: 64-bit types where the sample has some, and a name for failures."""

    @functools.wraps(rule)
    def run(sample: Sample) -> None:
        with naming(f"in the check of {rule.__name__} of {sample}"), mjax.enable_x64(sample.x64):
            rule(sample)

    return run


@check
def evaluation(sample: Sample) -> None:
    """Values, shapes and dtypes are NumPy's."""
    operands = sample.operands(sample.rng())
    outs = sample.call(*operands)
    if sample.case.reference is None:
        return
    expected = sample.expected(operands)
    assert_same(outs, expected, sample.case.tolerance * precision([*operands, *expected]))


@check
def staging(sample: Sample) -> None:
    """The primitive is staged, types are what evaluation gives, and jit gives the same values."""
    operands = sample.operands(sample.rng())
    jaxpr = mjax.make_jaxpr(sample.call)(*operands)
    assert sample.case.primitive in primitive_names(jaxpr.jaxpr)
    outs = sample.call(*operands)
    for aval, out in zip(jaxpr.out_avals, map(mjax.typeof, outs), strict=True):
        assert (aval.shape, aval.dtype, aval.weak_type) == (out.shape, out.dtype, out.weak_type)
    jitted = mjax.jit(sample.call)(*operands)
    assert_same(jitted, outs, 4 * precision([*operands, *outs]))


@check
def constants(sample: Sample) -> None:
    """What is closed over takes another way to the compiler than what is passed: same values."""
    operands = sample.operands(sample.rng())
    outs = sample.call(*operands)
    for made in (operands, list(map(mjax.device_put, operands))):
        found = mjax.jit(lambda made=made: sample.call(*made), compiler_options=UNOPTIMIZED)()
        assert_same(found, outs, sample.case.tolerance * precision([*operands, *outs]))


@check
def batching(sample: Sample) -> None:
    """vmap is a loop, for every subset of batched operands and every position of their axes."""
    size = 5  # unlike those of most axes
    stacks = sample.operands(sample.rng(), (size,))
    positions = [[None, *range(len(shape) + 1)] for shape, _ in sample.avals]
    choices = [c for c in itertools.product(*positions) if any(p is not None for p in c)]
    args = [_place(stacks, axes) for axes in choices]

    def mapped(xs: list[Any], axes: Any) -> Any:
        with naming(f"vmap with in_axes={axes}"):
            return mjax.vmap(sample.call, in_axes=axes)(*xs)

    batched = mjax.jit(lambda args: list(map(mapped, args, choices)), compiler_options=UNOPTIMIZED)
    for axes, outs in zip(choices, batched(args), strict=True):
        with naming(f"vmap with in_axes={axes}"):
            elements = [sample.call(*[x[0 if p is None else i]
                                      for x, p in zip(stacks, axes, strict=True)])
                        for i in range(size)]
            assert_same(outs, _stacked(elements), sample.case.tolerance * precision(stacks))


@check
def nested_batching(sample: Sample) -> None:
    """vmap of vmap is a loop in a loop, for pairs of subsets of batched operands.

    The inner batches are of size 1, which could be taken for an axis to stretch.
    """
    rng = sample.rng()
    stacks = sample.operands(rng, (3, 1))
    groups = list(subsets(range(len(stacks))))
    pairs = list(itertools.product(groups, groups))
    ndims = [len(shape) for shape, _ in sample.avals]
    ways = []
    for k in rng.permutation(len(pairs))[:50]:
        outer, inner = pairs[k]
        low = [int(rng.integers(n + 1)) if i in inner else None for i, n in enumerate(ndims)]
        high = [int(rng.integers(n + 1 + (i in inner))) if i in outer else None
                for i, n in enumerate(ndims)]
        ways.append((tuple(high), tuple(low)))

    # From the inside out: first the inner axis goes to its place, then the outer one.
    args = [_place([x[:, 0] if p is None else np.moveaxis(x, 1, p + 1)
                    for x, p in zip(stacks, low, strict=True)], high) for high, low in ways]

    def mapped(xs: list[Any], way: Any) -> Any:
        with naming("vmap with in_axes={} of vmap with in_axes={}".format(*way)):
            return mjax.vmap(mjax.vmap(sample.call, in_axes=way[1]), in_axes=way[0])(*xs)

    batched = mjax.jit(lambda args: list(map(mapped, args, ways)), compiler_options=UNOPTIMIZED)
    for (high, low), outs in zip(ways, batched(args), strict=True):
        with naming(f"vmap with in_axes={high} of vmap with in_axes={low}"):
            rows = [_stacked([sample.call(*[x[0 if p is None else i, 0]
                                            for x, p in zip(stacks, high, strict=True)])])
                    for i in range(3)]
            assert_same(outs, _stacked(rows), sample.case.tolerance * precision(stacks))


def _place(stacks: Sequence[Array], axes: Sequence[int | None]) -> list[Array]:
    """Arguments whose batch axis, the first, is at its place; one element where it is None."""
    return [x[0] if p is None else np.moveaxis(x, 0, p)
            for x, p in zip(stacks, axes, strict=True)]


def _stacked(elements: Sequence[Sequence[Any]]) -> list[Array]:
    return [np.stack([np.asarray(x) for x in column]) for column in zip(*elements, strict=True)]


@check
def differentiation(sample: Sample) -> None:
    """jvp is the limit of differences and vjp its transpose, for each subset of operands.

    The operands that are left out have symbolic zeros for tangents.
    """
    rng = sample.rng()
    operands = sample.operands(rng)
    for group in subsets(sample.inexact):
        with naming(f"derivative in operands {group}"):
            f = sample.restricted(group, operands)
            order = sample.case.order if len(group) == len(sample.inexact) else 1
            check_derivatives(f, [operands[i] for i in group], rng, order)


def check_derivatives(f: Callable[..., Any], primals: list[Array], rng: np.random.Generator,
                      order: int) -> None:
    """jvp of `f` against finite differences, vjp against jvp; then the same of the vjp."""
    tangents = [normal(rng, x.shape, x.dtype) for x in primals]
    types = mjax.eval_shape(f, *primals)
    cts = tuple(normal(rng, out.shape, np.dtype(out.dtype)) for out in types)
    eps = precision([*primals, *types])
    step, tolerance = eps ** (1 / 3), 200 * eps ** (2 / 3)
    shifted = [[x + s * step * t for x, t in zip(primals, tangents, strict=True)] for s in (1, -1)]

    @functools.partial(mjax.jit, compiler_options=UNOPTIMIZED)
    def everything(primals: Any, tangents: Any, above: Any, below: Any, cts: Any) -> Any:
        outs, out_tangents = mjax.jvp(f, tuple(primals), tuple(tangents))
        return outs, out_tangents, f(*above), f(*below), mjax.vjp(f, *primals)[1](cts)

    outs, out_tangents, above, below, in_cts = everything(primals, tangents, *shifted, cts)
    assert [(t.shape, t.dtype) for t in out_tangents] == [(x.shape, x.dtype) for x in outs]
    assert [(c.shape, c.dtype) for c in in_cts] == [(x.shape, x.dtype) for x in primals]
    for actual, a, b in zip(out_tangents, above, below, strict=True):
        assert_close(actual, (np.asarray(a) - np.asarray(b)) / a.dtype.type(2 * step), tolerance)
    assert_close(pairing(cts, out_tangents), pairing(in_cts, tangents), tolerance)
    if order > 1:
        with naming("derivative of the vjp"):
            check_derivatives(lambda *p: mjax.vjp(f, *p)[1](cts), primals, rng, order - 1)


@check
def transposition(sample: Sample) -> None:
    """In each of its groups of operands the function is linear, and the transpose fits it."""
    rng = sample.rng()
    operands = sample.operands(rng)
    for group in sample.case.linear:
        with naming(f"linear in operands {group}"):
            f = sample.restricted(group, operands)
            xs, ys = [[normal(rng, operands[i].shape, operands[i].dtype) for i in group]
                      for _ in range(2)]
            fx, fy, fxy = f(*xs), f(*ys), f(*[2 * x - 3 * y for x, y in zip(xs, ys, strict=True)])
            tolerance = 100 * precision([*xs, *fx])
            for a, b, c in zip(fx, fy, fxy, strict=True):
                assert_close(c, 2 * np.asarray(a) - 3 * np.asarray(b), tolerance)
            cts = tuple(normal(rng, out.shape, np.dtype(out.dtype)) for out in fx)
            transpose = mjax.linear_transpose(f, *xs)
            in_cts = transpose(cts)
            assert [(c.shape, c.dtype) for c in in_cts] == [(x.shape, x.dtype) for x in xs]
            assert_close(pairing(in_cts, xs), pairing(cts, fx), tolerance)
            with naming("transpose of the transpose"):
                (twice,) = mjax.linear_transpose(transpose, cts)(tuple(xs))
                for a, b in zip(twice, fx, strict=True):
                    assert_close(a, b, tolerance)


# ---- the table as tests ----------------------------------------------------------------


def plan(case: Case, known: bool = False) -> Iterator[tuple[Check, Sample, bool]]:
    """Which checks are made on which samples of a case, and whether that is for slow runs only.

    Args:
      case: the row.
      known: whether there is an earlier row of this primitive.
    """
    samples = list(case.samples())
    for i, sample in enumerate(samples):
        yield evaluation, sample, i > 0
        yield staging, sample, i > 0
        if sample.types:
            yield constants, sample, True
        if sample.T == samples[0].T and sample.types:
            yield batching, sample, known or i > 0
            yield nested_batching, sample, True
    for i, sample in enumerate(case.samples(widened=True)):
        if case.order:
            yield differentiation, sample, known or i > 0
        if case.linear:
            yield transposition, sample, known or i > 0


def table(cases: Sequence[Case]) -> Any:
    """Decorator of a test `(check, sample)`: one test for each check of each sample."""
    rows, known = [], set()
    for case in cases:
        for rule, sample, slow in plan(case, case.primitive in known):
            rows.append(pytest.param(rule, sample, id=f"{sample}-{rule.__name__}",
                                     marks=[pytest.mark.slow] if slow else []))
        known.add(case.primitive)
    return pytest.mark.parametrize(("check", "sample"), rows)
