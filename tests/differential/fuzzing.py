"""Random programs as plain data: a seed makes one, which can be printed, changed and shrunk.

jax is asked, by type alone, which operations fit. One that it refuses stays in the program as a
refusal: mjax must refuse it too, with an exception that is caught alike.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

from tests.differential.compare import assert_close, facts
from tests.differential.composition import LAX, NUMPY, Operation, functions, table

MORE = [
    *functions("numpy", 1, "sinc cumprod nancumsum nansum nanmax nanmean nanvar median ptp unique "
               "fabs sign signbit positive invert reciprocal exp2 log2 deg2rad i0 modf frexp "
               "angle imag fix spacing count_nonzero atleast_3d flipud fliplr rot90 tril rint"),
    *functions("numpy", 2, "hypot logaddexp2 heaviside nextafter float_power ldexp gcd lcm "
               "bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_xor divmod "
               "searchsorted convolve correlate kron cross vecdot array_equal allclose digitize "
               "fmax fmin polyval hstack vstack minimum isin setdiff1d tensordot"),
    *functions("lax", 1, "lgamma digamma erf_inv erfc tan acosh acos asin cosh sinh exp2 ceil "
               "conj integer_pow clz not_ stop_gradient reciprocal full_like zeros_like"),
    *functions("lax", 2, "igamma zeta shift_right_logical shift_right_arithmetic ne gt le "
               "bitwise_or"),
    *functions("lax", 3, "clamp"),
    *table("lax", {
        "cumlogsumexp": (1, lambda lax, x: lax.cumlogsumexp(x)),
        "cummin backwards": (1, lambda lax, x: lax.cummin(x, reverse=True)),
        "argmin": (1, lambda lax, x: lax.argmin(x, 0, np.int32)),
        "top_k": (1, lambda lax, x: lax.top_k(x, 1)[0]),
        "window sum": (1, lambda lax, x: lax.reduce_window(
            x, np.zeros((), np.result_type(x)), lax.add, (1,) * (np.ndim(x) - 1) + (2,),
            (1,) * np.ndim(x), "VALID")),
        "window max": (1, lambda lax, x: lax.reduce_window(
            x, np.asarray(-np.inf, np.result_type(x)), lax.max, (1,) * (np.ndim(x) - 1) + (2,),
            (1,) * np.ndim(x), "SAME")),
        "reduce_precision": (1, lambda lax, x: lax.reduce_precision(x, 8, 4)),
        "sort pairs": (2, lambda lax, x, y: lax.sort_key_val(x, y)[1]),
        "batched dot": (2, lambda lax, x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,))))),
        "dot in f32": (2, lambda lax, x, y: lax.dot_general(
            x, y, (((0,), (0,)), ((), ())), preferred_element_type=np.float32)),
        "conv": (2, lambda lax, x, y: lax.conv(x[None, None], y[None, None], (1,), "SAME")[0, 0]),
        "scan of sums": (1, lambda lax, x: lax.scan(lambda c, y: (c + y, c * y), x[0], x)),
        "associative_scan": (1, lambda lax, x: lax.associative_scan(lambda a, b: a + b, x)),
        "map": (1, lambda lax, x: lax.map(lambda y: y * y, x)),
        "fori_loop": (1, lambda lax, x: lax.fori_loop(0, 3, lambda i, c: c * i + c, x)),
        "while_loop": (1, lambda lax, x: lax.while_loop(
            lambda c: c[1] < 3, lambda c: (c[0] * 1 + c[0], c[1] + 1), (x, 0))[0]),
        "cond": (2, lambda lax, p, x: lax.cond(p, lambda y: y * 2, lambda y: -y, x)),
        "switch": (2, lambda lax, i, x: lax.switch(i, [lambda y: y, lambda y: y + y], x)),
        "reduce by a function": (1, lambda lax, x: lax.reduce(
            x, np.ones((), np.result_type(x)), lambda a, b: a * b, (0,))),
        "expand": (1, lambda lax, x: lax.broadcast_to_rank(x, 3)),
        "collapse": (1, lambda lax, x: lax.collapse(x, 0, 2)),
        "pad by negative": (1, lambda lax, x: lax.pad(
            x, np.ones((), np.result_type(x)), [(-1, 2, 1)] * np.ndim(x))),
        "rev all": (1, lambda lax, x: lax.rev(x, tuple(range(np.ndim(x))))),
    }),
    *table("numpy", {
        "to bfloat16": (1, lambda jnp, x: x.astype("bfloat16")),
        "to complex": (1, lambda jnp, x: x.astype(complex)),
        "to uint8": (1, lambda jnp, x: x.astype("uint8")),
        "to bool": (1, lambda jnp, x: x.astype(bool)),
        "x ** -1": (1, lambda jnp, x: x**-1), "x ** 0.5": (1, lambda jnp, x: x**0.5),
        "x ** y": (2, lambda jnp, x, y: x**y), "2 - x": (1, lambda jnp, x: 2 - x),
        "True + x": (1, lambda jnp, x: True + x), "x << 1": (1, lambda jnp, x: x << 1),
        "x >> y": (2, lambda jnp, x, y: x >> y), "x | y": (2, lambda jnp, x, y: x | y),
        "x ^ 3": (1, lambda jnp, x: x ^ 3), "divmod(x, 2)": (1, lambda jnp, x: divmod(x, 2)),
        "abs(x)": (1, lambda jnp, x: abs(x)), "round(x, 1)": (1, lambda jnp, x: jnp.round(x, 1)),
        "np.float32(2) * x": (1, lambda jnp, x: np.float32(2) * x),
        "np.int8(2) * x": (1, lambda jnp, x: np.int8(2) * x),
        "np.float64(2) + x": (1, lambda jnp, x: np.float64(2) + x),
        "x[x > 0]": (1, lambda jnp, x: x[x > 0]),
        "where(x > 0, x, 0)": (1, lambda jnp, x: jnp.where(x > 0, x, 0)),
        "where(x, y, 1.5)": (2, lambda jnp, x, y: jnp.where(x, y, 1.5)),
        "clip(0, 1)": (1, lambda jnp, x: jnp.clip(x, 0, 1)),
        "x.at[...].mul(2)": (1, lambda jnp, x: x.at[..., -1].mul(2)),
        "x.at[1].min(y)": (2, lambda jnp, x, y: x.at[1].min(y)),
        "x.at[i].get": (2, lambda jnp, x, i: x.at[i].get(mode="fill")),
        "x.at[i].set drop": (2, lambda jnp, x, i: x.at[i].set(1, mode="drop")),
        "x[i, :2]": (2, lambda jnp, x, i: x[i, :2]),
        "x[..., None]": (1, lambda jnp, x: x[..., None]),
        "take_along_axis": (2, lambda jnp, x, i: jnp.take_along_axis(x, i, axis=-1)),
        "sum of float16": (1, lambda jnp, x: jnp.sum(x, dtype=np.float16)),
        "prod(axis=-1)": (1, lambda jnp, x: x.prod(axis=-1)),
        "mean(axis=0)": (1, lambda jnp, x: x.mean(axis=0)),
        "std(ddof=1)": (1, lambda jnp, x: x.std(axis=-1, ddof=1)),
        "all(axis=0)": (1, lambda jnp, x: jnp.all(x, axis=0)),
        "argmax(axis=-1)": (1, lambda jnp, x: jnp.argmax(x, axis=-1)),
        "average": (2, lambda jnp, x, w: jnp.average(x, weights=w)),
        "quantile": (1, lambda jnp, x: jnp.quantile(x, 0.3)),
        "x[:, ::-1]": (1, lambda jnp, x: x[:, ::-1]), "x[:0]": (1, lambda jnp, x: x[:0]),
        "reshape(1, -1)": (1, lambda jnp, x: x.reshape(1, -1)),
        "squeeze(0)": (1, lambda jnp, x: jnp.squeeze(x, 0)),
        "moveaxis": (1, lambda jnp, x: jnp.moveaxis(x, 0, -1)),
        "concatenate(axis=None)": (2, lambda jnp, x, y: jnp.concatenate([x, y], axis=None)),
        "stack 3": (3, lambda jnp, x, y, z: jnp.stack([x, y, z], -1)),
        "einsum ii": (1, lambda jnp, x: jnp.einsum("ij->j", x)),
        "einsum outer": (2, lambda jnp, x, y: jnp.einsum("i,j->ij", x, y)),
        "gradient": (1, lambda jnp, x: jnp.gradient(x)[0]),
        "trapezoid": (1, lambda jnp, x: jnp.trapezoid(x)),
        "interp": (3, lambda jnp, x, y, z: jnp.interp(x, y, z)),
        "histogram": (1, lambda jnp, x: jnp.histogram(x, 3)[0]),
        "bincount": (1, lambda jnp, x: jnp.bincount(x, length=4)),
        "pad edge": (1, lambda jnp, x: jnp.pad(x, 1, mode="edge")),
        "pad reflect": (1, lambda jnp, x: jnp.pad(x, 1, mode="reflect")),
        "select": (3, lambda jnp, p, x, y: jnp.select([p > 0], [x], y)),
        "piecewise": (1, lambda jnp, x: jnp.piecewise(x, [x < 0], [lambda y: -y, 1])),
        "full_like(2.5)": (1, lambda jnp, x: jnp.full_like(x, 2.5)),
        "ones(weak)": (1, lambda jnp, x: jnp.ones_like(x) * 1.0),
        "array([x, y])": (2, lambda jnp, x, y: jnp.array([x, y])),
        "nonzero": (1, lambda jnp, x: jnp.nonzero(x, size=2)[0]),
        "view int": (1, lambda jnp, x: x.view(np.int32)),
    }),
]
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


def outcome(case: Case, m: Any, steps: bool = False) -> Any:
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


#: Exceptions of jax that say that it tripped, not that the program is wrong.
TRIPPED = ("AssertionError", "JaxRuntimeError", "XlaRuntimeError", "KeyError",
           "UnboundLocalError", "MLIRError", "RecursionError", "AttributeError", "OverflowError")


def difference(case: Case, mjax: Any) -> str | None:
    """How the libraries differ on a program; None if they do not."""
    theirs = outcome(case, jax)
    if isinstance(theirs, Exception) and (
            type(theirs).__name__ in TRIPPED or "to negative powers" in str(theirs)):
        return None  # jax refuses an exponent if it happens to be known
    ours = outcome(case, mjax)
    text = compare(ours, theirs, not set(DERIVATIVES) & set(case.transformations))
    if text is not None and text.startswith("values") and _unstable(case, theirs):
        return None
    return text or refusals(case, mjax)


def compare(ours: Any, theirs: Any, weak: bool = True) -> str | None:
    """How two outcomes differ; weak types are left out on request.

    Of tangents they depend on the order in which terms are multiplied.
    """
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
            if theirs is None or type(theirs).__name__ in TRIPPED:
                continue
            # An operation that is wrong in two ways may be refused for either: not a difference.
            if ours is None:
                return f"refusal: mjax accepts {step}, jax raises {theirs!r:.300}"
            if not isinstance(ours, (TypeError, ValueError, LookupError, ArithmeticError,
                                     NotImplementedError)):
                return f"refusal: {step}: {ours!r:.300} in mjax, {theirs!r:.300} in jax"
    return None


def search(seeds: Any, mjax: Any) -> Iterator[tuple[Case, str]]:
    """The programs among these seeds on which the libraries differ."""
    for seed in seeds:
        case = make(seed)
        text = difference(case, mjax)
        if text is not None:
            yield case, text


__all__ = ["Case", "difference", "itertools", "make", "search", "shrunk"]
