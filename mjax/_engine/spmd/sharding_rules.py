"""Rules that say which dimensions of an operation's operands and results are cut alike.

A rule names the *factors* of each dimension. Dimensions that share a factor are cut along the same
mesh axes. Shardy uses rules to choose shardings; they do not affect results.

Source: Shardy, "Sharding propagation"; the public interface of
`jax.experimental.custom_partitioning`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from mjaxlib_shim.partitioners import lacks_factor_kinds, sharding_rule

#: Stands for any number of leading dimensions. A number behind it names a group of them.
BATCHING: str = "…"

_KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")


def _is_batching(factor: str) -> bool:
    return factor[:1] == BATCHING and (len(factor) == 1 or factor[1:].isdigit())


def _check_factor(factor: str) -> None:
    if not factor[:1].isalpha():
        msg = f"the name of a factor starts with a letter, not with {factor[:1]!r}: {factor!r}."
        raise ValueError(msg)
    wrong = next((c for c in factor if not (c.isalnum() or c == "_")), None)
    if wrong is not None:
        msg = f"the name of a factor has letters, digits and underscores; {wrong!r} in {factor!r}."
        raise ValueError(msg)


class CompoundFactor(tuple[str, ...]):
    """The factors of a dimension that consists of several, the slowest first.

    Args:
      factors: their names, two or more.

    Raises:
      ValueError: there are less; one is not a name.

    Example:
      >>> from mjax.experimental.custom_partitioning import CompoundFactor
      >>> CompoundFactor("b", "c")
      ('b', 'c')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            msg = f"a CompoundFactor consists of two or more factors, got {factors}."
            raise ValueError(msg)
        for factor in factors:
            if not isinstance(factor, str):
                msg = f"the factors of a CompoundFactor are strings, got {factor!r}."
                raise ValueError(msg)
            if _is_batching(factor):
                msg = "an ellipsis cannot be a part of a CompoundFactor: it stands for dimensions."
                raise ValueError(msg)
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of an operand or a result.

    Args:
      dim_mappings: per dimension a factor, or a `CompoundFactor`. The first may be `BATCHING`, for
        any number of leading dimensions.

    Raises:
      ValueError: one is something else; `BATCHING` is not the first.

    Example:
      >>> from mjax.experimental.custom_partitioning import BATCHING, ArrayMapping, CompoundFactor
      >>> ArrayMapping(BATCHING, CompoundFactor("b", "c"), "d")
      ('…', ('b', 'c'), 'd')
    """

    __slots__ = ()

    def __new__(cls, *dim_mappings: str | CompoundFactor) -> ArrayMapping:
        for i, dim in enumerate(dim_mappings):
            if isinstance(dim, CompoundFactor):
                continue
            if not isinstance(dim, str):
                msg = ("the dimensions of an ArrayMapping are strings or CompoundFactors, got "
                       f"{dim!r} of type {type(dim).__name__}.")
                raise ValueError(msg)
            if not _is_batching(dim):
                _check_factor(dim)
            elif i != 0:
                msg = "an ellipsis stands for leading dimensions: it can only be the first one."
                raise ValueError(msg)
        return super().__new__(cls, dim_mappings)


def _mapping(dims: Iterable[Any]) -> ArrayMapping:
    return dims if isinstance(dims, ArrayMapping) else ArrayMapping(
        *[CompoundFactor(*d) if type(d) is tuple else d for d in dims])


class SdyShardingRule:
    """Which dimensions of an operation's operands and results are cut alike.

    Args:
      operand_mappings: per operand an `ArrayMapping`, or a tuple of its dimensions.
      result_mappings: the same of the results.
      reduction_factors: factors over which the operation reduces.
      need_replication_factors: factors whose dimensions must not be cut.
      permutation_factors: factors whose pieces devices would have to exchange.
      factor_sizes: the sizes of factors that only occur in `CompoundFactor`s.

    Raises:
      ValueError: a size is missing, or superfluous; a factor of a kind does not occur, or is of two
        kinds; the kinds are not tuples.

    Example:
      >>> from mjax.experimental.custom_partitioning import SdyShardingRule
      >>> SdyShardingRule((("i", "j"), ("j", "k")), (("i", "k"),), reduction_factors=("j",)
      ...                 ).reduction_factors
      ('j',)

    Source: the public interface of `jax.experimental.custom_partitioning.SdyShardingRule`.
    """

    def __init__(self, operand_mappings: Sequence[Any], result_mappings: Sequence[Any], *,
                 reduction_factors: tuple[str, ...] = (),
                 need_replication_factors: tuple[str, ...] = (),
                 permutation_factors: tuple[str, ...] = (), **factor_sizes: int):
        self.operand_mappings: tuple[ArrayMapping, ...] = tuple(map(_mapping, operand_mappings))
        self.result_mappings: tuple[ArrayMapping, ...] = tuple(map(_mapping, result_mappings))
        self.factor_sizes = factor_sizes
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        self._check_sizes()
        self._check_kinds()

    def _dims(self) -> list[Any]:
        return [dim for mapping in (*self.operand_mappings, *self.result_mappings)
                for dim in mapping]

    def _check_sizes(self) -> None:
        whole = {dim for dim in self._dims() if isinstance(dim, str)}
        parts = {f for dim in self._dims() if not isinstance(dim, str) for f in dim} - whole
        for factor in self.factor_sizes:
            if factor not in whole | parts:
                msg = f"the size of the factor {factor} is given, but the rule does not have it."
                raise ValueError(msg)
            if factor in whole:
                msg = (f"the factor {factor} is a whole dimension, which has its size: leave "
                       f"{factor}={self.factor_sizes[factor]} out.")
                raise ValueError(msg)
        for factor in sorted(parts.difference(self.factor_sizes)):
            msg = (f"the factor {factor} only occurs in compound factors: give its size, "
                   f"{factor}=....")
            raise ValueError(msg)

    def _check_kinds(self) -> None:
        known = {f for dim in self._dims() for f in ((dim,) if isinstance(dim, str) else dim)}
        seen: dict[str, str] = {}
        for kind in _KINDS:
            factors = getattr(self, kind)
            if not isinstance(factors, tuple):
                msg = f"{kind} must be a tuple of names, got {factors!r}."
                raise ValueError(msg)
            for factor in factors:
                if factor not in known:
                    msg = f"{kind} names the factor {factor}, which does not occur in the rule."
                    raise ValueError(msg)
                if factor in seen:
                    msg = f"the factor {factor} is in {kind}, and in {seen[factor]} already."
                    raise ValueError(msg)
                seen[factor] = kind

    def __repr__(self) -> str:
        kinds = "".join(f" {kind}={getattr(self, kind)}" for kind in _KINDS if getattr(self, kind))
        return (f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, "
                f"{self.factor_sizes}{kinds})")


# ---- rules as texts --------------------------------------------------------------------

_TOKEN = re.compile(r"\.\.\.(?P<group>\d*)|(?P<name>\w+)|(?P<mark>[(),])|(?P<space>\s+)|.")


def rule_of_text(rule: str, **options: Any) -> SdyShardingRule:
    """A rule from its text: `"... i j, j k -> ... i k"`, `"(a b) c -> c"`.

    Operands and results are separated by commas, dimensions by spaces; brackets hold the factors of
    one dimension. `...` stands for leading dimensions, `...1` for those of another group.

    Args:
      rule: the text.
      options: as `SdyShardingRule` takes them.

    Raises:
      TypeError: it is not a string, or a size is not an integer.
      ValueError: the text is not a rule.
    """
    if not isinstance(rule, str):
        msg = f"a rule is a string, got {rule!r} of type {type(rule).__name__}."
        raise TypeError(msg)
    for name, size in options.items():
        if name not in _KINDS and not isinstance(size, int):
            msg = f"the size of the factor {name} must be an integer, got {size!r}."
            raise TypeError(msg)
    sides = rule.split("->")
    if len(sides) != 2:
        _refuse(rule, "it needs one ->, between operands and results")
    operands, results = (_values(rule, side) for side in sides)
    return SdyShardingRule(operands, results, **options)


def _refuse(rule: str, why: str) -> NoReturn:
    msg = f"the rule {rule!r} cannot be read: {why}."
    raise ValueError(msg)


def _values(rule: str, side: str) -> tuple[ArrayMapping, ...]:
    values: list[list[Any]] = [[]]
    inner: list[str] | None = None
    for token in _TOKEN.finditer(side):
        mark = token["mark"]
        if token["space"]:
            continue
        if token["group"] is not None:
            if values[-1] or inner is not None:
                _refuse(rule, "... can only be the first dimension of an array")
            values[-1].append(f"{BATCHING}{int(token['group'] or 0)}")
        elif token["name"]:
            (values[-1] if inner is None else inner).append(token["name"])
        elif mark == ",":
            values.append([])
        elif mark == "(" and inner is None:
            inner = []
        elif mark == ")" and inner is not None:
            if len(inner) < 2:
                _refuse(rule, "brackets hold two or more factors")
            values[-1].append(CompoundFactor(*inner))
            inner = None
        elif mark:
            _refuse(rule, "its brackets are not balanced, or nested")
        else:
            _refuse(rule, f"it has the character {token[0]!r}")
    if inner is not None:
        _refuse(rule, "its brackets are not balanced")
    return tuple(ArrayMapping(*dims) for dims in values)


# ---- rules for shapes ------------------------------------------------------------------


def rule_attribute(rule: SdyShardingRule, in_shapes: Sequence[Sequence[int]],
                   out_shapes: Sequence[Sequence[int]]) -> Any:
    """The attribute of a rule, for operands and results of these shapes.

    Raises:
      ValueError: the rule does not fit the shapes.
      NotImplementedError: this jaxlib's rules do not tell a kind of factors.
    """
    for what, mappings, shapes in (("operands", rule.operand_mappings, in_shapes),
                                   ("results", rule.result_mappings, out_shapes)):
        if len(mappings) != len(shapes):
            msg = (f"the sharding rule is for {len(mappings)} {what}, but the operation has "
                   f"{len(shapes)}.")
            raise ValueError(msg)
    if needed := lacks_factor_kinds(bool(rule.need_replication_factors),
                                    bool(rule.permutation_factors)):
        msg = (f"the sharding rule has kinds of factors that need {needed}. Before, give "
               "dimensions that must not be cut factors of their own in each array, and let "
               "`partition` ask for whole ones.")
        raise NotImplementedError(msg)
    names = [*(f"operand {i}" for i in range(len(in_shapes))),
             *(f"result {i}" for i in range(len(out_shapes)))]
    factors = _Factors(rule.factor_sizes)
    arrays = [factors.expanded(*given) for given in zip(
        names, (*rule.operand_mappings, *rule.result_mappings), (*in_shapes, *out_shapes),
        strict=True)]
    found = [factors.indices(*given) for given in zip(
        names, arrays, (*in_shapes, *out_shapes), strict=True)]
    kinds = {kind.removesuffix("_factors"): [factors.places[f] for f in getattr(rule, kind)]
             for kind in _KINDS}
    return sharding_rule(list(factors.sizes.values()), found[:len(in_shapes)],
                         found[len(in_shapes):], **kinds)


class _Factors:
    """The factors of a rule, numbered in the order in which they occur, and their sizes.

    Args:
      given: sizes of factors that are parts of dimensions.
    """

    def __init__(self, given: dict[str, int]):
        self.given = given
        self.sizes: dict[str, int] = {}
        self.ranks: dict[str, int] = {}

    @property
    def places(self) -> dict[str, int]:
        """Factor -> its number."""
        return {factor: i for i, factor in enumerate(self.sizes)}

    def expanded(self, name: str, mapping: ArrayMapping, shape: Sequence[int]
                 ) -> list[tuple[str, ...]]:
        """The factors of each dimension, those behind an ellipsis included."""
        batching = bool(mapping) and isinstance(mapping[0], str) and _is_batching(mapping[0])
        own = mapping[1:] if batching else mapping
        leading = len(shape) - len(own)
        if leading < 0 or (leading and not batching):
            msg = (f"the sharding rule is for {name} of {len(own)}{' or more' if batching else ''} "
                   f"dimensions, but it has {len(shape)}.")
            raise ValueError(msg)
        found: list[tuple[str, ...]] = []
        if batching:
            group = mapping[0][1:] or "0"
            if self.ranks.setdefault(group, leading) != leading:
                msg = (f"the ellipsis of {name} stands for {leading} dimensions, but for "
                       f"{self.ranks[group]} before.")
                raise ValueError(msg)
            found = [(f"?{group}_{i}",) for i in range(leading)]
        found += [(dim,) if isinstance(dim, str) else tuple(dim) for dim in own]
        for dim, size in zip(found, shape, strict=True):
            for factor in dim:
                self._note(name, factor, size if len(dim) == 1 else self.given.get(factor))
        return found

    def _note(self, name: str, factor: str, size: int | None) -> None:
        known = self.sizes.get(factor)
        if known is None or known < 0:
            self.sizes[factor] = -1 if size is None else size
        elif size is not None and size != known:
            if factor[0] == "?":
                msg = (f"a leading dimension of {name} has the size {size}, but {known} before: "
                       "the dimensions of an ellipsis have the same sizes everywhere.")
                raise ValueError(msg)
            self.sizes[factor] = min(known, size)

    def indices(self, name: str, dims: Sequence[tuple[str, ...]], shape: Sequence[int]
                ) -> list[list[int]]:
        """The numbers of the factors of each dimension."""
        for dim, size in zip(dims, shape, strict=True):
            product = math.prod(self.sizes[factor] for factor in dim)
            if len(dim) > 1 and product != size:
                msg = (f"a dimension of {name} has the size {size}, but its factors "
                       f"{' '.join(dim)} make {product}.")
                raise ValueError(msg)
        places = self.places
        return [[places[factor] for factor in dim] for dim in dims]


__all__ = ["BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "rule_attribute",
           "rule_of_text"]
