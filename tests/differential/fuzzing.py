"""Random programs as plain data: a seed makes one, which can be printed, changed and shrunk.

jax is asked, by type alone, which operations fit. One that it refuses stays in the program as a
refusal: mjax must refuse it too, with an exception that is caught alike.

    python -m tests.differential.fuzzing --seeds 0:5000

runs many programs in one process, shrinks those on which the libraries differ, and prints them.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

import mjax
from tests.differential.compare import assert_close, facts
from tests.differential.judged import JUDGED, Operand
from tests.differential.operations import LAX, MORE, NUMPY, Operation

OPERATIONS = {op.name: op for op in (*LAX, *NUMPY, *MORE)}
#: Operations in which jax is odd. Its lax.reshape takes sizes that do not fit, and fails where it
#: lowers them. Types of logaddexp, and of tangents of float_power, are weak by chance. It refuses
#: histograms of nothing, fails at cumlogsumexp of integers, and at derivatives of spacing.
ODD = {"flat", "folded", "numpy.logaddexp", "numpy.logaddexp2", "histogram",
       "numpy.float_power", "cumlogsumexp", "numpy.spacing"}
NAMES = sorted(OPERATIONS.keys() - ODD)
DTYPES = ("float32", "float32", "bfloat16", "float16", "int8", "int32", "uint8", "bool",
          "complex64", "float64", "int64")
SHAPES = ((), (3,), (3,), (2, 3), (2, 3), (1,), (2, 1), (0, 3), (0,))
SCALARS = (2, 0.5, True, -1, 1.5 + 1j)


class Argument(NamedTuple):
    """An array of random numbers, or a Python number (`shape` is None, `value` it)."""

    dtype: str
    shape: tuple[int, ...] | None
    value: Any

    def make(self) -> Any:
        if self.shape is None:
            return self.value
        rng = np.random.default_rng(self.value)
        dtype = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if dtype.kind in "iu":
            return rng.integers(0 if dtype.kind == "u" else -3, 4, self.shape).astype(dtype)
        # Multiples of 1/8 that are not halves, so that rounding decides as little as it can.
        values = rng.integers(-8, 9, self.shape) / 4 + 0.125
        if dtype.kind == "c":
            values = values + 1j * (rng.integers(-8, 9, self.shape) / 4 + 0.125)
        return values.astype(dtype)

    def __str__(self) -> str:
        if self.shape is None:
            return repr(self.value)
        return f"{self.dtype}{list(self.shape)}  # {self.make().tolist()}"


class Step(NamedTuple):
    """An operation on values made before; arguments have the first numbers."""

    name: str
    operands: tuple[int, ...]

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.name]


class Case(NamedTuple):
    """A program, under transformations (the innermost first), and what jax refused beside it."""

    seed: int
    x64: bool
    arguments: tuple[Argument, ...]
    steps: tuple[Step, ...]
    transformations: tuple[str, ...]
    refused: tuple[Step, ...] = ()

    def __str__(self) -> str:
        names = [f"v{i} = {a}" for i, a in enumerate(self.arguments)]
        n = len(self.arguments)
        names += [f"v{n + i} = {s.name}({', '.join(f'v{j}' for j in s.operands)})"
                  for i, s in enumerate(self.steps)]
        around = " of ".join([*reversed(self.transformations), "the program"])
        names += [f"refused: {s.name}({', '.join(f'v{j}' for j in s.operands)})"
                  for s in self.refused]
        return "\n".join([f"# seed {self.seed}, x64 {'on' if self.x64 else 'off'}: {around}",
                          *names])


def evaluate(m: Any, steps: Any, values: list[Any]) -> list[Any]:
    """All values of a program; an operation with several results gives its first."""
    values = list(values)
    for step in steps:
        out = step.operation.apply(m, *[values[i] for i in step.operands])
        values.append(m.tree_util.tree_leaves(out)[0])
    return values


def results(case: Case, m: Any) -> Callable[..., list[Any]]:
    """The program as a function: it gives the values that no step uses."""
    used = {i for step in case.steps for i in step.operands}
    n = len(case.arguments)
    return lambda *args: [v for i, v in enumerate(evaluate(m, case.steps, list(args)))
                          if i >= n and i not in used]


# ---- transformations -------------------------------------------------------------------


def kinds(m: Any, xs: Any) -> list[str]:
    """The kind of dtype of each value: narrow floats are `f`."""
    return ["f" if m.numpy.issubdtype(m.numpy.result_type(x), np.floating) else
            np.dtype(m.numpy.result_type(x)).kind for x in xs]


def smooth(m: Any, f: Any, xs: Any, wanted: str = "f") -> tuple[Any, list[Any]]:
    """The function of those arguments that have derivatives, and these."""
    which = [kind in wanted for kind in kinds(m, xs)]

    def g(*given: Any) -> Any:
        left = iter(given)
        return f(*[next(left) if w else x for x, w in zip(xs, which, strict=True)])

    return g, [x for x, w in zip(xs, which, strict=True) if w]


def loss(m: Any, f: Any) -> Callable[..., Any]:
    """The sum of what a function gives, as a float."""

    def total(*xs: Any) -> Any:
        outs = [m.numpy.sum(m.numpy.real(o)).astype(np.float32) for o in f(*xs)
                if getattr(o, "dtype", np.dtype(bool)) != jax.dtypes.float0]
        return sum(outs, m.numpy.float32(0))

    return total


def grad(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        g, given = smooth(m, f, xs)
        return list(m.grad(loss(m, g), tuple(range(len(given))))(*given)) if given else f(*xs)

    return transformed


def jvp(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        g, given = smooth(m, f, xs, "fc")
        if not given:
            return f(*xs)
        outs, tangents = m.jvp(g, tuple(given), tuple(m.numpy.ones_like(x) for x in given))
        return [*outs, *tangents]

    return transformed


def vjp(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        g, given = smooth(m, f, xs, "fc")
        if not given:
            return f(*xs)
        outs, back = m.vjp(g, *given)
        return [*outs, *back([np.zeros(o.shape, jax.dtypes.float0) if kind not in "fc" else
                              m.numpy.ones_like(o) for o, kind in zip(
                                  outs, kinds(m, outs), strict=True)])]

    return transformed


def linearize(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        g, given = smooth(m, f, xs, "fc")
        if not given:
            return f(*xs)
        outs, tangent = m.linearize(g, *given)
        return [*outs, *tangent(*[m.numpy.ones_like(x) for x in given])]

    return transformed


def hessian(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        g, given = smooth(m, f, xs)
        return [m.hessian(loss(m, g))(*given)] if given else f(*xs)

    return transformed


def both(m: Any, x: Any) -> Any:
    """A batch of two that differ."""
    x = m.numpy.asarray(x)
    return m.numpy.stack([x, m.numpy.flip(x)])


def vmap(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        axes = tuple(None if i % 3 == 2 else 0 for i in range(len(xs)))
        return m.vmap(f, axes)(*[x if a is None else both(m, x)
                                 for x, a in zip(xs, axes, strict=True)])

    return transformed


def scan(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        first, *rest = xs
        return m.lax.scan(lambda n, x: (n + 1, f(x, *rest)), 0, both(m, first))

    return lambda *xs: m.tree_util.tree_leaves(transformed(*xs))


def cond(m: Any, f: Any) -> Callable[..., Any]:
    def other(*xs: Any) -> Any:
        return [m.numpy.zeros_like(o) for o in f(*xs)]

    return lambda *xs: m.lax.cond(m.numpy.sum(xs[0]) == 77, other, f, *xs)


def while_loop(m: Any, f: Any) -> Callable[..., Any]:
    def transformed(*xs: Any) -> Any:
        start = [m.numpy.zeros_like(o) for o in f(*xs)]
        return m.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(*xs)), (0, start))[1]

    return transformed


TRANSFORMATIONS: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "jit": lambda m, f: m.jit(f), "grad": grad, "jvp": jvp, "vjp": vjp, "linearize": linearize,
    "hessian": hessian, "vmap": vmap, "scan": scan, "cond": cond, "while_loop": while_loop,
    "checkpoint": lambda m, f: m.checkpoint(f), "fori_loop": lambda m, f: lambda *xs: [
        m.lax.fori_loop(0, 2, lambda i, c: c + i, o) for o in f(*xs)
        if getattr(o, "dtype", None) != jax.dtypes.float0],
}
#: Those that may stand in any place; of derivatives there is one at most in a program.
DERIVATIVES = ("grad", "jvp", "vjp", "linearize", "hessian")
OTHERS = tuple(name for name in TRANSFORMATIONS if name not in DERIVATIVES)


# ---- making and changing programs ------------------------------------------------------


def make(seed: int) -> Case:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    pick = lambda choices: choices[int(rng.integers(len(choices)))]
    x64 = bool(rng.integers(3) == 0)
    arguments = []
    shape = pick(SHAPES)
    for _ in range(3):
        own = shape if rng.integers(2) else pick(SHAPES)
        arguments.append(Argument("", None, pick(SCALARS)) if rng.integers(8) == 0 else
                         Argument(pick(DTYPES), own, int(rng.integers(1000))))
    chosen = [pick(OTHERS) for _ in range(rng.integers(3))]
    if rng.integers(2):
        chosen.insert(int(rng.integers(len(chosen) + 1)), pick(DERIVATIVES))
    if rng.integers(4):
        chosen.append("jit")  # most programs, for a program compiles faster than its operations
    steps: list[Step] = []
    refused: list[Step] = []
    length = int(rng.integers(1, 6))
    with jax.enable_x64(x64), quiet():
        types = [_type_of(a.make()) for a in arguments]
        for _ in range(8 * length):
            if len(steps) == length:
                break
            name = pick(NAMES)
            weights = np.linspace(1, 3, len(types)) ** 2
            step = Step(name, tuple(map(int, rng.choice(
                len(types), OPERATIONS[name].arity, p=weights / weights.sum()))))
            try:
                types.append(_result_type(step, types))
                steps.append(step)
            except Exception:
                refused.append(step)
    return Case(seed, x64, tuple(arguments), tuple(steps), tuple(chosen), tuple(refused[:2]))


class _Type(NamedTuple):
    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool


def _type_of(value: Any) -> Any:
    return jax.ShapeDtypeStruct(np.shape(value), jax.numpy.result_type(value),
                                weak_type=not hasattr(value, "dtype") and value is not True)


def _result_type(step: Step, types: list[Any]) -> Any:
    def f(*xs: Any) -> Any:
        return jax.tree_util.tree_leaves(step.operation.apply(jax, *xs))[0]

    out = jax.eval_shape(f, *[types[i] for i in step.operands])
    if not hasattr(out, "shape") or np.prod(out.shape) > 200:
        raise ValueError(step.name)
    return out


def shrunk(case: Case, differs: Callable[[Case], bool]) -> Case:
    """A smaller program that still differs."""
    while True:
        for smaller in _smaller(case):
            try:
                if _makes_sense(smaller) and differs(smaller):
                    case = smaller
                    break
            except Exception:  # a step lacks an operand
                continue
        else:
            return case


def _makes_sense(case: Case) -> bool:
    """Whether jax takes the program itself."""
    with jax.enable_x64(case.x64), quiet():
        jax.eval_shape(results(case, jax), *[_type_of(a.make()) for a in case.arguments])
    return True


def _smaller(case: Case) -> Iterator[Case]:
    for i in range(len(case.transformations)):
        yield case._replace(transformations=(*case.transformations[:i],
                                             *case.transformations[i + 1:]))
    n = len(case.arguments)
    for k in reversed(range(len(case.steps))):
        # Without a step its users take one of its operands, or an argument.
        for other in dict.fromkeys((*case.steps[k].operands, *range(n))):
            renamed = [s._replace(operands=tuple(
                other if i == n + k else i - (i > n + k) for i in s.operands))
                for j, s in enumerate(case.steps) if j != k]
            yield case._replace(steps=tuple(renamed))
    for i, argument in enumerate(case.arguments):
        if argument.shape:
            yield case._replace(arguments=(*case.arguments[:i], argument._replace(shape=()),
                                           *case.arguments[i + 1:]))
        if argument.dtype not in ("float32", ""):
            yield case._replace(arguments=(*case.arguments[:i], argument._replace(dtype="float32"),
                                           *case.arguments[i + 1:]))
    if case.x64:
        yield case._replace(x64=False)


# ---- comparing -------------------------------------------------------------------------


def quiet() -> Any:
    context = warnings.catch_warnings()
    context.__enter__()
    warnings.simplefilter("ignore")
    return _Leaving(context)


class _Leaving:
    def __init__(self, context: Any):
        self.context = context

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)


def outcome(case: Case, m: Any) -> Any:
    """The outcome of a program in a library: its results, or an exception."""
    with m.enable_x64(case.x64), quiet():
        f: Any = results(case, m)
        for name in case.transformations:
            f = TRANSFORMATIONS[name](m, f)
        try:
            return [np.asarray(o) if not hasattr(o, "dtype") else o
                    for o in m.tree_util.tree_leaves(f(*[a.make() for a in case.arguments]))]
        except Exception as error:
            return error


#: Exceptions of jax, and texts of them, that say that it tripped, not that the program is wrong.
TRIPPED = ("AssertionError", "JaxRuntimeError", "XlaRuntimeError", "KeyError",
           "UnboundLocalError", "MLIRError", "RecursionError", "AttributeError", "OverflowError")
TRIPPED_TEXTS = ("to negative powers",  # jax refuses an exponent if it happens to be known
                 "tuple index out of range", "Slice size at index", "for axis 0 with size 0",
                 "vmap was requested", "bfloat16'> not inexact",
                 "select cases must have the same shapes",  # derivative of a clamp by scalars
                 "Differentiation rule for")  # mjax has more of them
#: Operations that mjax takes where jax refuses them; docs/differences.md says why.
WIDER = {"numpy.kron", "trapezoid"}
#: Operations of which mjax looks at the axes before the dtype; `differences`.
AXES_FIRST = {"any"}


def judged(case: Case) -> bool:
    """Whether the libraries differ for good on an operation of this program."""
    if not any(step.name in JUDGED for step in case.steps):
        return False
    derivative = bool({*DERIVATIVES} & {*case.transformations})
    given = [a.make() for a in case.arguments]
    n = len(given)

    def value(i: int) -> Any:
        """An operand without transformations; None where these make another of it."""
        if {"vmap", "scan"} & {*case.transformations}:
            return None
        try:
            return np.asarray(evaluate(jax, case.steps[:max(i - n + 1, 0)], given)[i])
        except Exception:  # of what jax refuses where it lowers
            return None

    with jax.enable_x64(case.x64), quiet():
        types = jax.eval_shape(lambda *xs: evaluate(jax, case.steps, list(xs)),
                               *map(_type_of, given))
        return any(JUDGED[step.name]([
            Operand(types[i], i < n, functools.partial(value, i)) for i in step.operands],
            derivative) for step in case.steps if step.name in JUDGED)


def differentiates_numbers(case: Case) -> bool:
    """Whether a derivative is with respect to a Python number: that is weak in mjax, and perhaps
    not in jax; docs/differences.md."""
    kinds = {"grad": float, "hessian": float}
    return any(a.shape is None and isinstance(a.value, kinds.get(name, (float, complex)))
               for name in case.transformations if name in DERIVATIVES for a in case.arguments)


def tripped(error: Exception) -> bool:
    return type(error).__name__ in TRIPPED or any(t in str(error) for t in TRIPPED_TEXTS)


def difference(case: Case, mjax: Any) -> str | None:
    """How the libraries differ on a program; None if they do not."""
    if judged(case):
        return None
    theirs = outcome(case, jax)
    if isinstance(theirs, Exception) and tripped(theirs):
        return None
    ours = outcome(case, mjax)
    text = compare(ours, theirs, not differentiates_numbers(case))
    if text is not None and text.startswith("values") and (
            _unstable(case, theirs) or _rounded(case, ours, theirs)):
        return None
    return text or refusals(case, mjax)


def compare(ours: Any, theirs: Any, weak: bool = True) -> str | None:
    """How two outcomes differ; without `weak`, weak types may."""
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        if not isinstance(theirs, Exception):
            return f"mjax raises {type(ours).__name__}: {ours}"
        if not isinstance(ours, Exception):
            return f"jax raises {type(theirs).__name__}: {str(theirs)[:300]}"
        return _same_exception(ours, theirs)
    ours_facts, theirs_facts = [
        [facts(o) if weak else facts(o)[:2] for o in outs] for outs in (ours, theirs)]
    if ours_facts != theirs_facts:
        return f"types: {ours_facts} in mjax, {theirs_facts} in jax"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if b.dtype == jax.dtypes.float0:
            continue
        try:
            assert_close(a, b, 2e-4, f"result {i}")
        except AssertionError:
            return f"values of result {i}: {np.asarray(a)} in mjax, {np.asarray(b)} in jax"
    return None


def _same_exception(ours: Exception, theirs: Exception) -> str | None:
    names = [c.__name__ for c in type(ours).__mro__]
    known = next(c.__name__ for c in type(theirs).__mro__ if c.__module__ == "builtins")
    if type(theirs).__name__ in names or known in names:
        return None
    return (f"exceptions: {type(ours).__name__} in mjax ({str(ours)[:300]}), "
            f"{type(theirs).__name__} in jax ({str(theirs)[:300]})")


def _unstable(case: Case, theirs: Any) -> bool:
    """Whether jax itself gives other values, operation by operation or after rounding."""
    flipped = case._replace(transformations=tuple(
        t for t in case.transformations if t != "jit") + (
            () if "jit" in case.transformations else ("jit",)))
    return compare(outcome(flipped, jax), theirs) is not None


def _rounded(case: Case, ours: Any, theirs: Any) -> bool:
    """Whether ours are as near as jax's to the results from the same numbers in 32 bits."""
    wide = outcome(case._replace(arguments=tuple(
        a._replace(dtype="float32") if a.dtype in ("bfloat16", "float16") else a
        for a in case.arguments)), jax)
    if isinstance(wide, Exception) or len(wide) != len(theirs):
        return False
    for a, b, right in zip(ours, theirs, wide, strict=True):
        if compare([a], [b]) is not None and _error(a, right) > _error(b, right):
            return False
    return True


def _error(x: Any, right: Any) -> float:
    difference = np.asarray(x).astype(np.float64) - np.asarray(right).astype(np.float64)
    return float(np.max(np.abs(difference), initial=0.0))


def refusals(case: Case, mjax: Any) -> str | None:
    """How the libraries differ on the operations that jax refused by type."""
    n = len(case.arguments)
    values = [a.make() for a in case.arguments]
    with quiet():
        for step in case.refused:
            if max(step.operands, default=0) >= n:
                continue
            errors = []
            for m in (mjax, jax):
                with m.enable_x64(case.x64):
                    try:
                        m.eval_shape(lambda *xs, m=m, s=step: s.operation.apply(m, *xs),
                                     *[values[i] for i in step.operands])
                        errors.append(None)
                    except Exception as error:
                        errors.append(error)
            ours, theirs = errors
            if theirs is None or tripped(theirs):
                continue
            if ours is None:
                if step.name in WIDER:
                    continue
                return f"refusal: mjax accepts {step}, jax raises {theirs!r:.300}"
            text = _same_exception(ours, theirs)
            if text is not None and step.name not in AXES_FIRST:
                return f"refusal: {step}: {text}"
    return None


def search(seeds: Any, mjax: Any) -> Iterator[tuple[Case, str]]:
    """The programs among these seeds on which the libraries differ."""
    for seed in seeds:
        case = make(seed)
        text = difference(case, mjax)
        if text is not None:
            yield case, text


# ---- many programs ---------------------------------------------------------------------

#: Most of a program's time is code generation, of which this saves two thirds. XLA's own passes
#: stay as they are.
CHEAP = ("--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
         "--xla_cpu_use_fusion_emitters=false")
#: Programs between reports, and between clearings of caches: executables map much memory.
A_REPORT, A_CLEARING = 100, 500


def main(args: list[str]) -> int:
    """Runs the programs of `--seeds first:end`; gives the number of differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.fuzzing")
    parser.add_argument("--seeds", default="0:150", help="first:end, without the end")
    first, end = map(int, parser.parse_args(args).seeds.split(":"))
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {CHEAP}".strip()
    jax.config.update("jax_traceback_filtering", "off")
    start, found = time.process_time(), 0
    for begin in range(first, end, A_REPORT):
        seeds = range(begin, min(begin + A_REPORT, end))
        for case, text in search(seeds, mjax):
            found += 1
            small = shrunk(case, lambda c: difference(c, mjax) is not None)
            print(f"{text}\n{case}\nshrunk: {difference(small, mjax)}\n{small}\n", flush=True)
        done = seeds.stop - first
        print(f"seeds {first}:{seeds.stop}, {done} programs, {found} differ, "
              f"{(time.process_time() - start) / done:.2f} s each", flush=True)
        if done % A_CLEARING == 0:
            jax.clear_caches()
            mjax.clear_caches()
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
