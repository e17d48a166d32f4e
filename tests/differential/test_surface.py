"""Public callables of mjax and jax: the same names, parameters, results' types and exceptions.

Every callable that both have is looked at, and called with generic arguments, good and bad; see
`surface`. The differences that stay are in `differences`, with their reasons.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import pytest

import mjax
from tests.differential.differences import CALLS, SIGNATURES, TYPES
from tests.differential.surface import (
    NOT_CALLED,
    NOT_TYPED,
    callables,
    calls,
    difference,
    methods,
    outcome,
    parameters,
    typed_calls,
    typed_difference,
)


def _part(name: str) -> str:
    """The part of the surface that a function is tested with: none of them takes minutes."""
    first, *rest = name.split(".")
    if first == "scipy" and rest:
        return f"scipy.{rest[0]}"
    if first in ("numpy", "lax") and rest and rest[0]:
        return f"{first} {'abcdefghijklmnopqrstuvwxyz'.find(rest[0][0].lower()) // 4}"
    return first if first in ("example_libraries", "nn", "random") else "others"


def _part_of_pattern(pattern: str) -> str | None:
    """The part that all functions of a pattern are in; None if there are several."""
    literal = re.split(r"[*?(]", pattern)[0]
    complete = pattern[len(literal):len(literal) + 1] == "("
    return _part(literal) if complete or literal.count(".") + (literal[-1:] != ".") > 1 else None


PARTS = sorted({_part(pair.name) for pair in callables()})


def _compare(found: Iterable[str], reviewed: dict[str, str], every: bool = True,
             part: str | None = None) -> None:
    """Differences and reviewed entries cover each other; without `every` a sample of them.

    Args:
      part: that in which there may be no entry that nothing matches; None: all.
    """
    used, unknown = set(), []
    for line in found:
        matching = [p for p in reviewed if _matches(line.splitlines()[0], p)]
        used.update(matching)
        if not matching:
            unknown.append(line)
    stale = [f"matches no difference any more: {p}"
             for p in sorted(set(reviewed) - used)
             if every and part in (None, _part_of_pattern(p))]
    assert not unknown + stale, "\n".join(unknown + stale)


def _matches(line: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(line, pattern.replace("[", "[[]"))


def _signatures() -> Iterator[str]:
    for pair in {p[1:]: p for p in (*methods(), *callables())}.values():
        name, ours, theirs = pair
        if callable(ours) != callable(theirs):
            yield f"{name}: callable is {callable(ours)}, not {callable(theirs)}"
        if isinstance(theirs, jax.numpy.ufunc) != isinstance(ours, mjax.numpy.ufunc):
            yield f"{name}: {type(ours).__name__}, not {type(theirs).__name__}"
        wanted = getattr(theirs, "__name__", "_")
        if getattr(ours, "__name__", wanted) != wanted and not wanted.startswith("_"):
            yield f"{name}: __name__ {ours.__name__}, not {wanted}"
        both = parameters(pair)
        if both and both[0] != both[1]:
            only = [[p for p in both[i] if p not in both[1 - i]] for i in (0, 1)]
            yield f"{name}: parameters {only[0]}, not {only[1]}"


def test_names_and_parameters() -> None:
    _compare(_signatures(), SIGNATURES)


def test_entries_that_nothing_matches() -> None:
    _compare(["f(x): wrong"], {"f(*: wrong": ""})
    with pytest.raises(AssertionError, match=r"matches no difference any more: g\(\*"):
        _compare(["f(x): wrong"], {"f(*: wrong": "", "g(*: wrong": ""})


def test_numpy_has_no_names_of_its_own() -> None:
    assert not [n for n in mjax.numpy.__all__ if not hasattr(jax.numpy, n)]


def _calls(part: str) -> Iterator[str]:
    seen = set()
    for name, ours, theirs in callables():
        if _part(name) != part:
            continue
        skipped = any(fnmatch.fnmatchcase(name, pattern) for pattern in NOT_CALLED)
        if skipped or (id(ours), id(theirs)) in seen or not (callable(ours) and callable(theirs)):
            continue
        seen.add((id(ours), id(theirs)))
        for call in calls(name, theirs, lambda call, f=theirs: outcome(jax, f, call)):
            found = difference(outcome(mjax, ours, call), call.expected)
            if found:
                yield f"{name}({call.text}): {found}"


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_calls(part: str, quick_errors: None) -> None:
    """Types of results, and classes of exceptions."""
    _compare(_calls(part), CALLS, part=part)


#: The functions whose results are compared by type.
TYPED = [pair for pair in {p[1:]: p for p in callables()}.values()
         if pair.name.startswith(("numpy.", "lax.", "nn.", "random.",
                                  "scipy.special.", "scipy.stats."))
         and callable(pair.ours) and callable(pair.theirs)
         and not any(fnmatch.fnmatchcase(pair.name, p) for p in (*NOT_CALLED, *NOT_TYPED))]


def _typed_calls(x64: bool, most: int, pairs: Iterable[Any]) -> Iterator[str]:
    """Differences of types of results, and the calls that mjax alone refuses."""
    with mjax.enable_x64(x64), jax.enable_x64(x64):
        for name, ours, theirs in pairs:
            for call in typed_calls(name, theirs, x64, most):
                expected = outcome(jax, theirs, call)
                if not isinstance(expected, Exception):
                    found = typed_difference(outcome(mjax, ours, call), expected)
                    if found:
                        yield f"{name}({call.text}): {found}"


@pytest.mark.parametrize("part", range(8))
def test_types_of_operands(part: int, quick_errors: None) -> None:
    """Of each function a few calls: dtypes and weak types of results."""
    _compare(_typed_calls(part % 2 == 1, 2, TYPED[part::8]), TYPES, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted({_part(pair.name) for pair in TYPED}))
def test_types_of_many_operands(part: str, quick_errors: None) -> None:
    pairs = [pair for pair in TYPED if _part(pair.name) == part]
    _compare([found for x64 in (False, True) for found in _typed_calls(x64, 60, pairs)], TYPES,
             part=part)


@pytest.fixture
def quick_errors() -> Iterator[None]:
    """Tracebacks as they are: to fold thousands of them takes longer than the calls."""
    before = [m.config.jax_traceback_filtering for m in (mjax, jax)]
    for m in (mjax, jax):
        m.config.update("jax_traceback_filtering", "off")
    yield
    for m, value in zip((mjax, jax), before, strict=True):
        m.config.update("jax_traceback_filtering", value)
