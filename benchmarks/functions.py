"""Functions one by one: eager call, trace, size of the compiled program, run.

They have four goals. An eager call takes at most JAX's time. Tracing takes 0.2 of it as a geometric
mean and 0.35 at most. All compiled programs together have at most JAX's instructions, and each at
most 1.15 times as many. Running takes at most 1.05 of JAX's time. The first goal measures the front
end, the third the programs for XLA. The process has one core, if the system can hold it to one.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.scipy.linalg
import numpy as np

import mjax
from benchmarks.timing import interleaved

EAGER, TRACE_MEAN, TRACE_WORST, SIZE_SUM, SIZE_WORST, RUN = 1.0, 0.2, 0.35, 1.0, 1.15, 1.05


class Function(NamedTuple):
    """A public function by its path, with its operands and keyword arguments."""

    path: str
    operands: tuple[Any, ...]
    keywords: Mapping[str, Any] = MappingProxyType({})

    @property
    def name(self) -> str:
        words = [self.path, *(f"{k}={v}" for k, v in self.keywords.items())]
        return " ".join(words)

    def of(self, m: Any) -> Callable[..., Any]:
        """The function in a library, with its keyword arguments."""
        f = operator.attrgetter(self.path)(m)
        return lambda *xs: f(*xs, **self.keywords)


_RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


_SQUARE = _normal(16, 16) + 8 * np.eye(16, dtype=np.float32)
_DEFINITE = _SQUARE @ _SQUARE.T
_MATRIX, _VECTOR, _IMAGE, _SIGNAL = _normal(32, 64), _normal(64), _normal(16, 16, 3), _normal(256)
_UNIT = (1 / (1 + np.exp(-_MATRIX))).astype(np.float32)
_POSITIVE = np.exp(_MATRIX)
_KEY = np.array([0, 1], np.uint32)
_HEADS = _normal(2, 16, 4, 8)
_LABELS = _RNG.integers(0, 10, 64).astype(np.int32)

FUNCTIONS = [
    *(Function(f"numpy.linalg.{name}", (_SQUARE,)) for name in (
        "det", "eigvals", "inv", "pinv", "qr", "slogdet", "svd")),
    *(Function(f"numpy.linalg.{name}", (_DEFINITE,)) for name in ("cholesky", "eigh")),
    Function("numpy.linalg.solve", (_SQUARE, _MATRIX[:16])),
    Function("numpy.linalg.lstsq", (_MATRIX.T, _VECTOR)),
    Function("numpy.linalg.norm", (_SQUARE,), {"ord": 2}),
    Function("numpy.linalg.matrix_power", (_SQUARE,), {"n": 5}),
    *(Function(f"numpy.fft.{name}", (_SIGNAL,)) for name in ("fft", "rfft", "fftshift")),
    Function("numpy.fft.fft2", (_MATRIX,)),
    *(Function(f"scipy.special.{name}", (_MATRIX,)) for name in (
        "erf", "expit", "log_ndtr", "ndtr", "i0e", "logsumexp", "softmax")),
    *(Function(f"scipy.special.{name}", (_POSITIVE,)) for name in (
        "gammaln", "digamma", "entr", "factorial")),
    Function("scipy.special.logit", (_UNIT,)),
    Function("scipy.special.ndtri", (_UNIT,)),
    Function("scipy.special.xlogy", (_POSITIVE, _POSITIVE)),
    Function("scipy.special.betainc", (_POSITIVE, _POSITIVE, _UNIT)),
    Function("scipy.stats.norm.logpdf", (_MATRIX,)),
    Function("scipy.stats.gamma.logpdf", (_POSITIVE, _POSITIVE)),
    Function("scipy.stats.beta.logpdf", (_UNIT, _POSITIVE, _POSITIVE)),
    Function("scipy.stats.t.logpdf", (_MATRIX, _POSITIVE)),
    Function("scipy.stats.poisson.logpmf", (np.floor(_POSITIVE), _POSITIVE)),
    Function("scipy.stats.rankdata", (_VECTOR,)),
    Function("scipy.linalg.cho_solve", ((np.tril(_DEFINITE), True), _MATRIX[:16])),
    Function("scipy.linalg.solve_triangular", (_SQUARE, _MATRIX[:16])),
    Function("scipy.linalg.expm", (_SQUARE / 16,)),
    Function("scipy.linalg.lu_factor", (_SQUARE,)),
    Function("scipy.linalg.toeplitz", (_VECTOR,)),
    Function("scipy.fft.dct", (_SIGNAL,)),
    Function("scipy.signal.convolve", (_SIGNAL, _VECTOR)),
    Function("scipy.signal.fftconvolve", (_SIGNAL, _VECTOR)),
    Function("scipy.signal.welch", (_SIGNAL,), {"nperseg": 64}),
    Function("scipy.ndimage.map_coordinates", (_MATRIX, np.abs(_normal(2, 50))), {"order": 1}),
    *(Function(f"nn.{name}", (_MATRIX,)) for name in (
        "relu", "gelu", "silu", "elu", "selu", "softplus", "softmax", "log_softmax",
        "standardize", "mish", "glu")),
    Function("nn.one_hot", (_LABELS, 10)),
    Function("nn.dot_product_attention", (_HEADS, _HEADS, _HEADS)),
    Function("nn.dot_product_attention", (_HEADS, _HEADS, _HEADS), {"is_causal": True}),
    Function("image.resize", (_IMAGE, (32, 32, 3), "bilinear")),
    Function("image.resize", (_IMAGE, (8, 8, 3), "cubic")),
    Function("ops.segment_sum", (_VECTOR, _LABELS), {"num_segments": 10}),
    *(Function(f"random.{name}", (_KEY,), {"shape": (100,)}) for name in (
        "normal", "uniform", "gumbel", "exponential", "laplace")),
    Function("random.gamma", (_KEY, _VECTOR ** 2)),
    Function("random.categorical", (_KEY, _MATRIX)),
    Function("random.permutation", (_KEY, _VECTOR)),
    Function("random.poisson", (_KEY, _VECTOR ** 2)),
    Function("random.multivariate_normal", (_KEY, _VECTOR[:16], _DEFINITE)),
]


def _traceable(function: Function) -> tuple[list[Any], Callable[[Any], Callable[..., Any]]]:
    """The arrays among the operands, and a maker of functions of these."""
    leaves, tree = mjax.tree.flatten(function.operands)
    at = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]

    def make(m: Any) -> Callable[..., Any]:
        f = function.of(m)

        def call(*arrays: Any) -> Any:
            given = list(leaves)
            for i, x in zip(at, arrays, strict=True):
                given[i] = x
            return f(*tree.unflatten(given))

        return call

    return [leaves[i] for i in at], make


def instructions(m: Any, f: Callable[..., Any], arrays: list[Any]) -> int:
    """The number of instructions of the compiled program."""
    return len(re.findall(r"^\s+(?:ROOT )?%\S+ = ", m.jit(f).lower(*arrays).compile().as_text(),
                          re.MULTILINE))


def measure(function: Function, turns: int, seconds: float) -> dict[str, float]:
    """The four ratios of a function, mjax's over jax's."""
    arrays, make = _traceable(function)
    on = {m: [m.numpy.asarray(x) for x in arrays] for m in (mjax, jax)}
    eager = {m: make(m) for m in (mjax, jax)}
    compiled = {m: m.jit(make(m)) for m in (mjax, jax)}
    for ours, theirs in zip(mjax.tree.leaves(compiled[mjax](*on[mjax])),
                            jax.tree.leaves(compiled[jax](*on[jax])), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, function.name

    def run(m: Any, f: Any) -> Callable[[], Any]:
        return lambda: m.block_until_ready(f(*on[m]))

    def trace(m: Any) -> Callable[[], Any]:
        return lambda: m.make_jaxpr(make(m))(*on[m])

    def ratio(calls: list[Callable[[], Any]]) -> float:
        ours, theirs = interleaved(calls, turns, seconds)
        return ours / theirs

    return {
        "eager": ratio([run(m, eager[m]) for m in (mjax, jax)]),
        "trace": ratio([trace(mjax), trace(jax)]),
        "ours": instructions(mjax, make(mjax), on[mjax]),
        "theirs": instructions(jax, make(jax), on[jax]),
        "run": ratio([run(m, compiled[m]) for m in (mjax, jax)]),
    }


def table(quick: bool) -> list[dict[str, Any]]:
    """Measures and prints all functions, then their means and sums."""
    print(f"{'ratio to jax':44}{'eager':>8}{'trace':>8}{'HLO':>8}{'of':>6}{'run':>8}")
    rows = []
    for function in FUNCTIONS:
        row = measure(function, *((2, 0.003) if quick else (5, 0.02)))
        rows.append({"row": function.name, **row})
        print(f"{function.name:44}{row['eager']:8.2f}{row['trace']:8.2f}{row['ours']:8.0f}"
              f"{row['theirs']:6.0f}{row['run']:8.2f}", flush=True)
    mean = math.exp(sum(math.log(row["trace"]) for row in rows) / len(rows))
    results = [
        ("eager calls, the slowest", max(row["eager"] for row in rows), EAGER),
        ("traces, geometric mean", mean, TRACE_MEAN),
        ("traces, the slowest", max(row["trace"] for row in rows), TRACE_WORST),
        ("instructions, sum", sum(r["ours"] for r in rows) / sum(r["theirs"] for r in rows),
         SIZE_SUM),
        ("instructions, the most", max(r["ours"] / r["theirs"] for r in rows), SIZE_WORST),
        ("runs, the slowest", max(row["run"] for row in rows), RUN),
    ]
    print()
    for name, value, goal in results:
        print(f"{name:44}{value:8.2f}{goal:8.2f}{'' if value <= goal else '  missed'}")
    return [{"row": name, "ratio": value, "goal": goal, "reached": value <= goal}
            for name, value, goal in results]
