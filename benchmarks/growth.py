"""Growth of cost: time with the number of equations, stack depth with nesting."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.rows import GRAD, JVP, VMAP, X, chain, scalar
from benchmarks.timing import turn

#: Highest cost of 2n equations over that of n.
PER_DOUBLING = 2.3
FACTORS = (1, 2, 10, 100)


def measures(m: Any) -> dict[str, Callable[[int], Callable[[], Any]]]:
    """Costs that must be linear: name -> number of equations -> call to time."""
    return {
        "trace": lambda n: lambda: m.make_jaxpr(chain(m, n))(X),
        "jvp": lambda n: lambda: m.make_jaxpr(JVP(m, chain(m, n)))(X),
        "grad": lambda n: lambda: m.make_jaxpr(GRAD(m, scalar(m, n)))(X),
        "vmap": lambda n: lambda: m.make_jaxpr(VMAP(m, chain(m, n)))(X),
        "eager grad": lambda n: lambda: m.grad(scalar(m, n))(X),
        "lower": lambda n: lambda: m.jit(chain(m, n)).lower(X),
    }


class Growth(NamedTuple):
    """Seconds at each number of equations, and the worst cost of a doubling."""

    name: str
    seconds: dict[int, float]
    per_doubling: float


def linearity(m: Any, n: int) -> Iterator[Growth]:
    """Time at n, 2n, 10n and 100n equations."""
    for name, make in measures(m).items():
        make(n)()  # compiles programs that are cached
        seconds = {k * n: min(turn(make(k * n), 1) for _ in range(1 if k == 100 else 5))
                   for k in FACTORS}
        worst = max((s / seconds[n]) ** (1 / math.log2(k / n))
                    for k, s in seconds.items() if k > n)
        yield Growth(name, seconds, worst)


NESTED: dict[str, Callable[[Any, Any], Any]] = {
    "jit": lambda m, f: m.jit(lambda x: f(x)),
    "grad": lambda m, f: m.grad(lambda x: f(x)),
    "jvp": lambda m, f: lambda x: m.jvp(lambda y: f(y), (x,), (x,))[1],
    "vmap": lambda m, f: lambda x: m.vmap(lambda y: f(y))(m.lax.broadcast(x, (2,)))[0],
}


def frames(m: Any, nest: Callable[[Any, Any], Any], levels: int) -> int:
    """Python frames between the call of a function under nested transformations and its body."""
    depths = []

    def f(x: Any) -> Any:
        depths.append(len(inspect.stack(0)))
        return m.lax.sin(x)

    for _ in range(levels):
        f = nest(m, f)
    f(1.0)
    return max(depths)


def frames_per_level(m: Any) -> dict[str, float]:
    """Frames that each further level of a transformation puts on the stack."""
    return {name: (frames(m, nest, 4) - frames(m, nest, 2)) / 2 for name, nest in NESTED.items()}
