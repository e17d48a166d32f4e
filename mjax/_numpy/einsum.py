"""Einstein summation by products of two operands.

Subscripts are parsed and the order of products is found. Each product of two operands becomes one
`dot_general` or elementwise product.

A *term* is a tuple of labels, one for each axis of an operand: a letter, or a negative number
for the axes of an ellipsis, counted from the end so that they align as in broadcasting.
"""

from __future__ import annotations

import importlib
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir.dimensions import evaluate, symbols_of
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.reductions import reduce_or
from mjax._engine.primitives.shapes import (
    expand_dims,
    reshape,
    squeeze,
    transpose,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.core import cast, check_array, refuse_out, shape_of, wide_sum
from mjax._numpy.fused import fused
from mjax._numpy.products import Accuracy, multiply, operands

Label = str | int
Term = tuple[Label, ...]
Path = tuple[tuple[int, ...], ...]


class Plan(Record):
    """The facts about an `einsum` that follow from subscripts and shapes."""

    terms: tuple[Term, ...]
    out: Term
    path: Path


# ---- parsing ---------------------------------------------------------------------------


def _tokens(text: str, which: str) -> list[str]:
    """Letters and at most one ellipsis.

    Raises:
      ValueError: another character.
    """
    text = text.replace(" ", "")
    before, ellipsis, after = text.partition("...")
    for c in before + after:
        if not c.isalpha():
            msg = (f"einsum: {which} {text!r} has the character {c!r}; subscripts are letters, "
                   "and one ellipsis '...'.")
            raise ValueError(msg)
    return [*before, *([ellipsis] if ellipsis else []), *after]


def _sublist(items: Sequence[Any]) -> list[str]:
    """Tokens of a list of integers, maybe with an Ellipsis, in the interleaved form."""
    return ["..." if i is Ellipsis else chr(0x10000 + operator.index(i)) for i in items]


def _spelled(subscripts: Any, args: tuple[Any, ...]
             ) -> tuple[list[list[str]], list[str] | None, list[Any], str]:
    """Tokens of each operand and of the result, the operands, and the text for messages."""
    if isinstance(subscripts, str):
        left, arrow, right = subscripts.partition("->")
        tokens = [_tokens(t, "the subscript") for t in left.split(",")]
        return (tokens, _tokens(right, "the result") if arrow else None, list(args),
                repr(subscripts))
    items = [subscripts, *args]
    result = _sublist(items.pop()) if len(items) % 2 else None
    pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
    return [_sublist(s) for _, s in pairs], result, [x for x, _ in pairs], "the given sublists"


def _labels(tokens: Sequence[str], rank: int, position: int, text: str) -> Term:
    letters = [t for t in tokens if t != "..."]
    more = rank - len(letters)
    if more < 0 or (more and "..." not in tokens):
        msg = (f"Einstein sum subscript {''.join(tokens)!r} in {text} does not contain the correct "
               f"number of indices for operand {position}, which has {rank} axes.")
        raise ValueError(msg)
    labels: list[Label] = []
    for t in tokens:
        labels += range(-more, 0) if t == "..." else (t,)
    return tuple(labels)


def parse(tokens: Sequence[Sequence[str]], result: Sequence[str] | None,
          shapes: Sequence[tuple[int, ...]], text: str) -> tuple[list[Term], Term]:
    """Terms of the operands and of the result.

    Raises:
      ValueError: numbers of operands or axes do not fit, sizes differ, a label of the result is
        unknown or occurs twice.
    """
    if len(tokens) != len(shapes):
        msg = (f"Number of einsum subscripts, {len(tokens)} in {text}, must be equal to the "
               f"number of operands, {len(shapes)}.")
        raise ValueError(msg)
    terms = [_labels(t, len(s), i, text)
             for i, (t, s) in enumerate(zip(tokens, shapes, strict=True))]
    _sizes(terms, shapes, text)
    rank = max((-label for term in terms for label in term if isinstance(label, int)), default=0)
    counts = Counter(label for term in terms for label in term)
    if result is None:
        once = sorted(c for c, n in counts.items() if n == 1 and isinstance(c, str))
        return terms, (*range(-rank, 0), *once)
    out: list[Label] = []
    for t in result:
        out += range(-rank, 0) if t == "..." else (t,)
    for label in out:
        if label not in counts or out.count(label) > 1:
            problem = ("appeared more than once in the output" if label in counts else
                       "did not appear in the input")
            msg = f"Output character {label!r} {problem} of einsum {text}."
            raise ValueError(msg)
    return terms, tuple(out)


def _sizes(terms: Sequence[Term], shapes: Sequence[tuple[int, ...]], text: str
           ) -> dict[Label, int]:
    """The size of each label; axes of size 1 stretch.

    Raises:
      ValueError: two sizes differ.
    """
    sizes: dict[Label, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for label, n in zip(term, shape, strict=True):
            known = sizes.setdefault(label, n)
            if known == 1:
                sizes[label] = n
            elif n not in (1, known):
                what = f"label {label!r}" if isinstance(label, str) else "an axis of '...'"
                msg = (f"einsum {text}: size of {what} for operand {i} ({n}) does not match "
                       f"previous terms ({known}); shapes are {', '.join(map(str, shapes))}.")
                raise ValueError(msg)
    return sizes


# ---- the order of products -------------------------------------------------------------


def _opt_einsum() -> Any:
    # Its import takes as long as that of mjax.numpy; one or two operands do not need it.
    return importlib.import_module("opt_einsum")


def _equation(terms: Sequence[Term], out: Term) -> str:
    """The subscripts in letters that opt_einsum accepts."""
    labels = dict.fromkeys(label for term in terms for label in term)
    symbols = {label: _opt_einsum().get_symbol(i) for i, label in enumerate(labels)}
    spell = lambda term: "".join(symbols[label] for label in term)
    return ",".join(map(spell, terms)) + "->" + spell(out)


def _path(terms: Sequence[Term], out: Term, shapes: Sequence[tuple[int, ...]], optimize: Any
          ) -> Path:
    """The order of products, as a path of opt_einsum."""
    if not isinstance(optimize, (str, bool)):
        steps = [s for s in optimize if not isinstance(s, str)]
        return tuple(tuple(map(operator.index, step)) for step in steps)
    n = len(terms)
    if n <= 2:
        return (tuple(range(n)),)
    if optimize is False:
        return ((0, 1), *((0, k) for k in range(n - 2, 0, -1)))
    numbers = [tuple(max(1, evaluate(n, dict.fromkeys(symbols_of(n), 16))) for n in shape)
               for shape in shapes]  # any number: the order affects the cost, not the result
    steps, _ = _opt_einsum().contract_path(
        _equation(terms, out), *numbers, shapes=True,
        optimize="optimal" if optimize is True else optimize)
    return tuple(map(tuple, steps))


_plans = BoundedCache(1024)


def _plan(subscripts: Any, args: tuple[Any, ...], optimize: Any) -> tuple[Plan, list[Any]]:
    tokens, result, values, text = _spelled(subscripts, args)
    values = [check_array("einsum", x, i) for i, x in enumerate(values)]
    shapes = tuple(map(shape_of, values))
    terms, out = parse(tokens, result, shapes, text)
    return Plan(tuple(terms), out, _path(terms, out, shapes, optimize)), values


def _cached_plan(subscripts: Any, args: tuple[Any, ...], optimize: Any
                 ) -> tuple[Plan, Sequence[Any]]:
    if not isinstance(subscripts, str) or not isinstance(optimize, (str, bool)):
        return _plan(subscripts, args, optimize)
    args = tuple([check_array("einsum", x, i) for i, x in enumerate(args)])
    key = (subscripts, optimize, *map(shape_of, args))
    plan = _plans.get(key)
    return (plan or _plans.put(key, _plan(subscripts, args, optimize)[0])), args


# ---- computing -------------------------------------------------------------------------


class _Operand(Record):
    value: Any
    term: Term


def _sum_over(x: Any, axes: Sequence[int]) -> Any:
    if not axes:
        return x
    return reduce_or(x, axes) if typeof(x).dtype == np.bool_ else wide_sum(x, axes)


def _diagonals(x: Any, term: Term) -> _Operand:
    """An operand whose labels occur once: repeated ones are replaced by their diagonal."""
    for label, count in Counter(term).items():
        if count == 1:
            continue
        axes = [i for i, other in enumerate(term) if other == label]
        rest = [i for i in range(len(term)) if i not in axes]
        shape = shape_of(x)
        n = max(shape[i] for i in axes)
        short = [i for i in axes if shape[i] != n]
        if short:  # axes of size 1 are broadcast: their one element pairs with all
            x = squeeze(x, short)
            term = tuple(other for i, other in enumerate(term) if i not in short)
            return _diagonals(x, term)
        x = reshape(transpose(x, rest + axes), (*(shape[i] for i in rest), n**count))
        # The diagonal is a strided slice along the flattened axes.
        step = sum(n**k for k in range(count))
        x = slice_in_dim(x, 0, None, max(step, 1), len(rest))
        term = (*(term[i] for i in rest), label)
    return _Operand(x, term)


def _reduced(operand: _Operand, needed: set[Label]) -> _Operand:
    """The operand summed over labels that occur nowhere else."""
    gone = [i for i, label in enumerate(operand.term) if label not in needed]
    return _Operand(_sum_over(operand.value, gone),
                    tuple(label for label in operand.term if label in needed))


def _without_short_axes(operand: _Operand, sizes: dict[Label, int]) -> _Operand:
    """The operand without axes of size 1 that are broadcast to another size."""
    shape = shape_of(operand.value)
    short = [i for i, label in enumerate(operand.term) if shape[i] != sizes[label]]
    if not short:
        return operand
    return _Operand(squeeze(operand.value, short), tuple(
        label for i, label in enumerate(operand.term) if i not in short))


def _ordered(operand: _Operand, out: Term, keep_missing: bool = False) -> Any:
    """The operand with its axes in the order of `out`; missing ones get size 1."""
    present = [label for label in out if label in operand.term]
    value = transpose(operand.value, [operand.term.index(label) for label in present])
    missing = [i for i, label in enumerate(out) if label not in operand.term]
    return expand_dims(value, missing) if missing and keep_missing else value


def _product(a: _Operand, b: _Operand, needed: set[Label], out: Term | None, how: Accuracy,
             dot: Callable[..., Any]) -> _Operand:
    """The product of two operands, summed over the labels that are not needed any more."""
    summed = [label for label in a.term if label in b.term and label not in needed]
    if not summed and dot is dot_general:
        labels = tuple(dict.fromkeys((*a.term, *b.term))) if out is None else out
        x, y = [_ordered(o, labels, keep_missing=True) for o in (a, b)]
        return _Operand(multiply(cast(x, how.preferred), cast(y, how.preferred)), labels)
    batch = [label for label in a.term if label in b.term and label in needed]

    def result(left: _Operand, right: _Operand) -> Term:
        return (*batch, *(label for label in left.term if label not in right.term),
                *(label for label in right.term if label not in left.term))

    if out is not None:
        batch.sort(key=out.index)
        if result(a, b) != out and result(b, a) == out:
            a, b = b, a
    numbers = tuple(tuple(tuple(o.term.index(label) for label in labels) for o in (a, b))
                    for labels in (summed, batch))
    value = dot(a.value, b.value, numbers, precision=how.precision,
                preferred_element_type=how.preferred)
    return _Operand(value, result(a, b))


@fused(static_argnames=("plan", "precision", "preferred_element_type", "dot"))
def _contract(values: Sequence[Any], plan: Plan, precision: Any, preferred_element_type: Any,
              dot: Callable[..., Any]) -> Any:
    values, how = operands(values, precision, preferred_element_type)
    if how.preferred is None:
        how.preferred = typeof(values[0]).dtype
    sizes = _sizes(plan.terms, list(map(shape_of, values)), "")
    waiting = [_diagonals(x, t) for x, t in zip(values, plan.terms, strict=True)]
    rest = len(values) - sum(len(step) - 1 for step in plan.path)
    for step in (*plan.path, *([tuple(range(rest))] if rest > 1 else [])):
        chosen = [waiting[i] for i in step]
        waiting = [o for i, o in enumerate(waiting) if i not in step]
        later = {label for o in waiting for label in o.term}.union(plan.out)
        waiting.append(_combine(chosen, later, plan.out if not waiting else None, sizes, how, dot))
    (final,) = waiting
    out = _ordered(_reduced(final, set(plan.out)), plan.out)
    return cast(out, how.preferred, how.weak)


def _combine(chosen: list[_Operand], later: set[Label], out: Term | None,
             sizes: dict[Label, int], how: Accuracy, dot: Callable[..., Any]) -> _Operand:
    """The product of operands, summed over the labels that are not needed later."""
    chosen = [_without_short_axes(o, sizes) for o in chosen]
    while True:
        for i, o in enumerate(chosen):
            others = {label for other in chosen[:i] + chosen[i + 1 :] for label in other.term}
            chosen[i] = _reduced(o, others | later)
        if len(chosen) == 1:
            return chosen[0]
        a, b, *chosen = chosen
        needed = {label for o in chosen for label in o.term} | later
        chosen = [_product(a, b, needed, None if chosen else out, how, dot), *chosen]


# ---- public functions ------------------------------------------------------------------


@lays_out
def einsum(subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto",
           precision: Any = None, preferred_element_type: Any = None,
           _dot_general: Callable[..., Any] = dot_general) -> Any:
    """Einstein summation: products of arrays, summed over repeated indices.

    Args:
      subscripts: a letter for each axis of each operand, operands separated by commas, such as
        `"ij,jk->ik"`. The axes of the result follow `->`; without it they are the letters
        that occur once, in alphabetical order. `...` denotes further axes, which broadcast.
        Or operands and lists of integers in turn: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.
      operands: arrays; axes of size 1 stretch.
      out: not supported.
      optimize: the order of products of more than two operands: a strategy of opt_einsum, True
        for `"optimal"`, False for left to right, or a path.
      precision: None, a `lax.Precision` or its name, a pair of those, or a dot algorithm.
      preferred_element_type: dtype of sums and result.

    Returns:
      An array.

    Raises:
      ValueError: the subscripts do not fit to the operands.

    Source: `numpy.einsum`; the order by opt_einsum, Smith and Gray 2018,
    doi:10.21105/joss.00753.

    Example:
      >>> x, y = jnp.array([[1, 2], [3, 4]]), jnp.array([1, 10])
      >>> jnp.einsum("ij,j->i", x, y)
      Array([21, 43], dtype=int32)
      >>> jnp.einsum("ii", x)
      Array(5, dtype=int32)
    """
    refuse_out("einsum", out)
    plan, values = _cached_plan(subscripts, operands, optimize)
    if preferred_element_type is not None:
        preferred_element_type = np.dtype(preferred_element_type)
    return _contract(list(values), plan=plan, precision=precision,
                     preferred_element_type=preferred_element_type, dot=_dot_general)


@boundary
def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto"
                ) -> tuple[list[tuple[int, ...]], Any]:
    """The order of products of an `einsum`, without computing it.

    Args:
      subscripts: as in `einsum`.
      operands: arrays; only their shapes are read.
      optimize: as in `einsum`.

    Returns:
      A list of the operands that each step combines, and opt_einsum's description.

    Raises:
      ValueError: the subscripts do not fit to the operands.

    Source: `numpy.einsum_path`.

    Example:
      >>> x = jnp.ones((2, 2))
      >>> jnp.einsum_path("ij,jk,kl", x, x, x)[0]
      [(0, 1), (0, 1)]
    """
    tokens, result, values, text = _spelled(subscripts, operands)
    shapes = [shape_of(check_array("einsum_path", x, i)) for i, x in enumerate(values)]
    terms, out = parse(tokens, result, shapes, text)
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else list(_path(terms, out, shapes, False))
    steps, info = _opt_einsum().contract_path(_equation(terms, out), *shapes, shapes=True,
                                              optimize=optimize)
    return list(map(tuple, steps)), info


__all__ = ["einsum", "einsum_path"]
