"""`check_prng_impl`: finds what is wrong with a generator, before users do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mjax._engine.base.config import enable_x64
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.primitives.keys import (
    PRNGImpl,
    random_bits_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    resolve_impl,
    unwrap,
)
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.dispatch.jit import jit
from mjax._engine.tracing.rule_errors import where
from mjax._engine.transforms.vmap import vmap
from mjax_ext._reports import BaseReport, sentence

#: The checks, in the order of the table.
RULES = ("seed", "split", "fold_in", "random_bits", "determinism", "batch", "independence")
#: Deviations beyond this many standard deviations are findings: one in 500 million is by chance.
_SIGMAS = 6.0
_BITS = 1 << 14


class PRNGFinding(Record):
    """A fault of a generator.

    Attributes:
      impl: the generator.
      rule: what was checked, an entry of `RULES`.
      verdict: what is wrong.
      consequence: what users will see.
      remedy: what to do.
      where: `file:line` of the function.
    """

    impl: PRNGImpl
    rule: str
    verdict: str
    consequence: str
    remedy: str
    where: str

    def __str__(self) -> str:
        return sentence(f"generator {self.impl.name!r}", self)


class PRNGReport(BaseReport[PRNGFinding]):
    """The result of `check_prng_impl`; prints as a table.

    Args:
      impl: the generator.
      findings: the faults.
      examined: the rules that were looked at.

    Attributes:
      impl: the generator.
      findings: the faults.
      checked: the rules that were checked and found right.
      not_checked: rule -> why it was not checked.

    Example:
      >>> from mjax_ext.random import check_prng_impl
      >>> check_prng_impl("threefry2x32").ok
      True
    """

    rules: ClassVar[Iterable[str]] = RULES
    impl: PRNGImpl

    def __init__(self, impl: PRNGImpl, findings: Sequence[PRNGFinding], examined: Sequence[str]):
        wrong = {finding.rule for finding in findings}
        super().__init__(findings, [rule for rule in examined if rule not in wrong],
                         dict.fromkeys((rule for rule in RULES if rule not in examined),
                                       "its keys are made by functions that are wrong."))
        self.impl = impl

    def _subject(self) -> str:
        return f"generator {self.impl.name!r}"


@boundary
def check_prng_impl(impl: Any, *, seeds: Sequence[int] = (0, 1, 2, 12345, 2**31 - 1),
                    raise_for_findings: bool = False) -> PRNGReport:
    """Checks the functions of a generator against the rules that mjax relies on.

    It checks shapes and dtypes; that equal keys give equal numbers, compiled or not; that keys and
    bits of different seeds, children and numbers differ and are not correlated; that bits are
    balanced; and that a batch of keys gives what each key gives.

    Args:
      impl: what `define_prng_impl` returns, a `PRNGImpl`, or the name of a generator.
      seeds: the seeds of the keys that are tried; different ones, two or more.
      raise_for_findings: whether findings are an error.

    Returns:
      A report: `report.ok`, `report.findings`, `report.raise_for_findings()`; `str(report)` is a
      table. (`"rbg"` has a finding: a batch of its keys gives other bits than each key, by design.)

    Raises:
      WrongRulesError: an `AssertionError`; there are findings, and `raise_for_findings` is set.
      TypeError: `impl` is not a generator.
      ValueError: there are less than two seeds, or equal ones, or some beyond 32 bits.

    Example:
      >>> from mjax_ext.random import check_prng_impl, define_prng_impl, threefry_prng_impl as fry
      >>> impl = define_prng_impl(
      ...     key_shape=(2,), seed=fry.seed, random_bits=fry.random_bits, fold_in=fry.fold_in,
      ...     split=lambda key, shape: jnp.broadcast_to(key, (*shape, 2)), name="lazy")
      >>> [finding.verdict for finding in check_prng_impl(impl).findings]
      ['several children of a key are the same key.']
    """
    impl = resolve_impl(impl)
    if len(set(seeds)) < len(seeds) or len(seeds) < 2:
        msg = f"check_prng_impl: give two or more different seeds, got {seeds}."
        raise ValueError(msg)
    if not all(-2**31 <= seed < 2**31 for seed in seeds):
        msg = f"check_prng_impl: seeds are integers of 32 bits, got {seeds}."
        raise ValueError(msg)
    report = _Check(impl, seeds).report()
    if raise_for_findings:
        report.raise_for_findings()
    return report


class _Check:
    """The checks of one generator."""

    def __init__(self, impl: PRNGImpl, seeds: Sequence[int]):
        self.impl = impl
        self.seeds = np.asarray(seeds, np.int32)
        self.raising: set[str] = set()  # the rules whose checks raised

    # The primitives check shapes and dtypes of what users' functions give.

    def seed(self, seeds: Any) -> Any:
        return random_seed_p.bind(np.asarray(seeds, np.int32), impl=self.impl)

    def keys(self) -> Any:
        return self.seed(self.seeds)

    def report(self) -> PRNGReport:
        findings: list[PRNGFinding] = []
        checks = {"seed": self.check_seed, "split": self.check_split,
                  "fold_in": self.check_fold_in, "random_bits": self.check_bits}
        examined: list[str] = []
        for rule, check in checks.items():
            findings += self._guarded(rule, check)
            examined.append(rule)
            if "seed" in self.raising:  # all others start with a key
                break
        if findings:  # nothing can be said about such keys
            return PRNGReport(self.impl, findings, examined)
        for rule, check in {"determinism": self.check_determinism, "batch": self.check_batch,
                            "independence": self.check_independence}.items():
            findings += self._guarded(rule, check)
        return PRNGReport(self.impl, findings, RULES)

    def _guarded(self, rule: str, check: Callable[[], Iterator[PRNGFinding]]
                 ) -> list[PRNGFinding]:
        try:
            return list(check())
        except Exception as error:
            self.raising.add(rule)
            first = str(error).splitlines()[0] if str(error) else ""
            return [self._finding(
                rule, f"it raises {type(error).__name__}: {first}",
                "Users get this error.", "Correct the function, which gets tracers: see the "
                "shapes and dtypes in define_prng_impl.")]

    def _finding(self, rule: str, verdict: str, consequence: str, remedy: str,
                 function: str = "") -> PRNGFinding:
        f = getattr(self.impl, function or rule, None) or self.impl.seed
        return PRNGFinding(self.impl, rule, verdict, consequence, remedy, where(f))

    # -- shapes, dtypes, different results --

    def check_seed(self) -> Iterator[PRNGFinding]:
        for dtype in (np.int32, np.uint32, np.int8):
            self._typed("seed", self.impl.seed(to_array(np.asarray(1, dtype))),
                        self.impl.key_shape, 32)
        data = [unwrap(self.seed(s)) for s in self.seeds]
        if _have_twins(np.asarray([np.asarray(d).ravel() for d in data])):
            yield self._finding("seed", "different seeds give the same key.",
                                "Programs with different seeds draw the same numbers.",
                                "Use all 32 bits of the seed.")

    def check_split(self) -> Iterator[PRNGFinding]:
        parent = self.seed(self.seeds[0])
        data = unwrap(parent)
        for shape in ((), (1,), (3,), (2, 2), (0,)):
            self._typed("split", self.impl.split(data, shape), (*shape, *self.impl.key_shape), 32)
        children = _rows(random_split_p.bind(parent, shape=(64,)))
        if _have_twins(children):
            yield self._finding("split", "several children of a key are the same key.",
                                "Draws from them are equal.", "Make each child of its position.")
        elif (children == np.asarray(data).reshape(1, -1)).all(1).any():
            yield self._finding("split", "a child of a key is the key itself.",
                                "Draws from the parent and the child are equal.",
                                "Hash the key with the position, counted so that none keeps it.")

    def check_fold_in(self) -> Iterator[PRNGFinding]:
        parent = self.seed(self.seeds[0])
        for number in (np.uint32(0), np.uint32(2**32 - 1)):
            self._typed("fold_in", self.impl.fold_in(unwrap(parent), to_array(number)),
                        self.impl.key_shape, 32)
        made = np.asarray([_rows(random_fold_in_p.bind(parent, np.uint32(n)))[0]
                           for n in (*range(8), 2**16, 2**31)])
        if _have_twins(made):
            yield self._finding("fold_in", "different numbers give the same key.",
                                "Steps of a loop draw the same numbers.",
                                "Use all 32 bits of the number.")

    def check_bits(self) -> Iterator[PRNGFinding]:
        data = unwrap(self.seed(self.seeds[0]))
        for width in (8, 16, 32, 64):
            with enable_x64(width == 64):
                for shape in ((), (3,), (2, 2), (0,)):
                    self._typed("random_bits", self.impl.random_bits(data, width, shape), shape,
                                width)
        yield from ()

    def _typed(self, rule: str, out: Any, shape: tuple[int, ...], width: int) -> None:
        dtype = np.dtype(f"uint{width}")
        found = getattr(out, "dtype", None), tuple(np.shape(out))
        if found != (dtype, tuple(shape)):
            msg = f"{rule} gives {found[0]}{list(found[1])} in place of {dtype}{list(shape)}"
            raise TypeError(msg)

    # -- the same results --

    def check_determinism(self) -> Iterator[PRNGFinding]:
        data = unwrap(self.seed(self.seeds[0]))
        steps: dict[str, Callable[[Any], Any]] = {
            "split": lambda d: self.impl.split(d, (4,)),
            "fold_in": lambda d: self.impl.fold_in(d, to_array(np.uint32(3))),
            "random_bits": lambda d: self.impl.random_bits(d, 32, (5,))}
        for name, f in {"seed": lambda _: self.impl.seed(to_array(self.seeds[1])), **steps}.items():
            once, again = np.asarray(f(data)), np.asarray(f(data))
            compiled = np.asarray(jit(lambda d, f=f: f(d))(data))
            if not np.array_equal(once, again) or not np.array_equal(once, compiled):
                how = "twice" if not np.array_equal(once, again) else "compiled and not"
                yield self._finding(
                    "determinism", f"{name} of the same arguments, {how}, gives different results.",
                    "Programs with the same key cannot be repeated.",
                    "Compute from the arguments alone, not from a state of Python or NumPy.", name)

    def check_batch(self) -> Iterator[PRNGFinding]:
        keys = self.keys()
        numbers = np.arange(len(self.seeds), dtype=np.uint32)
        rules: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "seed": (lambda s: random_seed_p.bind(s, impl=self.impl), (self.seeds,)),
            "split": (lambda k: random_split_p.bind(k, shape=(2, 3)), (keys,)),
            "fold_in": (random_fold_in_p.bind, (keys, numbers)),
            "random_bits": (lambda k: random_bits_p.bind(k, bit_width=32, shape=(7,)), (keys,))}
        for name, (f, args) in rules.items():
            batch = _data(vmap(f)(*args))
            single = np.stack([_data(f(*[a[i] for a in args])) for i in range(len(self.seeds))])
            if not np.array_equal(batch, single):
                yield self._finding(
                    "batch", f"vmap of {name} gives other results than {name} of each key.",
                    "Results depend on how a program is batched.",
                    "Let each result depend on its own key alone; without takes_batches mjax maps "
                    "the function.", name)

    def check_independence(self) -> Iterator[PRNGFinding]:
        keys = random_split_p.bind(self.seed(self.seeds[0]), shape=(2,))
        folded = random_fold_in_p.bind(self.seed(self.seeds[0]), np.uint32(2**20))
        draws = {"a child of a key": self._bits(keys[0]), "its sibling": self._bits(keys[1]),
                 "the parent": self._bits(self.seed(self.seeds[0])),
                 "a key of fold_in": self._bits(folded),
                 "a key of another seed": self._bits(self.seed(self.seeds[1]))}
        limit = _SIGMAS / (2 * np.sqrt(_BITS))
        for name, bits in draws.items():
            if abs(bits.mean() - 0.5) > limit:
                yield self._finding(
                    "independence", f"of the bits of {name}, {bits.mean():.1%} are 1.",
                    "Distributions have wrong means.", "Mix the words of the key and the position.",
                    "random_bits")
                return
        words = np.concatenate([bits.reshape(-1, 32) for bits in draws.values()])
        for n, ones in enumerate(words.mean(0)):
            if abs(ones - 0.5) > _SIGMAS / (2 * np.sqrt(len(words))):
                yield self._finding(
                    "independence", f"bit {n} of the words of random_bits is 1 in {ones:.1%} of "
                    "them.", "Distributions have values that are more likely than they should be.",
                    "Let each bit depend on all bits of the key and of the position.",
                    "random_bits")
                return
        for name, bits in draws.items():
            repeated = (bits[:-32] == bits[32:]).mean()
            if abs(repeated - 0.5) > limit:
                yield self._finding(
                    "independence", f"successive words of {name} agree in {repeated:.1%} of bits.",
                    "Elements of an array are correlated.", "Hash each position by itself.",
                    "random_bits")
                return
        names = list(draws)
        for i, one in enumerate(names):
            for other in names[i + 1:]:
                same = (draws[one] == draws[other]).mean()
                if abs(same - 0.5) > limit:
                    yield self._finding(
                        "independence", f"the bits of {one} and of {other} agree in {same:.1%}.",
                        "Draws that should be independent are correlated.",
                        "Let every bit of a key, and of what makes it, change half of all bits.",
                        "split")
                    return

    def _bits(self, key: Any) -> np.ndarray[Any, Any]:
        words = np.asarray(random_bits_p.bind(key, bit_width=32, shape=(_BITS // 32,)))
        return np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")


def _rows(keys: Any) -> np.ndarray[Any, Any]:
    """The storage of keys, a row for each."""
    count = int(np.prod(keys.shape, dtype=np.int64))
    return np.asarray(unwrap(keys)).reshape(count, -1)


def _data(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(unwrap(x) if hasattr(x.dtype, "element_shape") else x)


def _have_twins(rows: np.ndarray[Any, Any]) -> bool:
    return len(np.unique(rows, axis=0)) < len(rows)
