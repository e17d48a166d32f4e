"""Symbolic shapes from strings: `symbolic_shape`, `symbolic_args_specs`, `SymbolicScope`.

    shape ::= ["("] [dim {"," dim}] [","] [")"]         dim  ::= "..." | "_" | sum
    sum   ::= ["-"] term {("+" | "-") term}             term ::= atom {"*" atom}
    atom  ::= (int | name | function "(" sum "," sum ")") ["^" int]
    function ::= "floordiv" | "mod" | "max" | "min"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import InconclusiveDimensionOperation
from mjax._engine.base.folding import boundary
from mjax._engine.base.sockets import sockets
from mjax._engine.ir.dimensions import Scope, max_dim, min_dim
from mjax._engine.ir.pytree import broadcast_prefix, tree_flatten, tree_unflatten
from mjax._engine.primitives.lifting import stage_p
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct, aval_of
from mjax._engine.tracing.interpreter import staging


def _dimension_value(size: Any) -> Any:
    if not staging():
        raise InconclusiveDimensionOperation(lambda: (
            f"the symbolic dimension {size} has a value only in a program that is exported: "
            "compute with it in the function that you export."))
    return stage_p.bind(size)


sockets.dimension_value = _dimension_value


class SymbolicScope(Scope):
    """The constraints of symbols; equal names are one symbol in a scope, but not across scopes.

    Args:
      constraints_str: strings such as "a >= b", "a <= 2*b" or "mod(a, 8) == 0". All symbols are at
        least 1.

    Raises:
      ValueError: a constraint cannot be parsed, or never holds.

    Example:
      >>> scope = mjax.export.SymbolicScope(["a >= 4"])
      >>> a, = mjax.export.symbolic_shape("a", scope=scope)
      >>> a >= 2
      True
    """

    def __init__(self, constraints_str: Sequence[str] = ()):
        super().__init__()
        if isinstance(constraints_str, str):
            msg = f"constraints must be a sequence of texts, got {constraints_str!r}: write a list."
            raise ValueError(msg)
        for text in constraints_str:
            relation = next((r for r in ("==", ">=", "<=") if r in str(text)), None)
            if relation is None:
                msg = (f"the constraint {text!r} must have one of ==, >= and <= between two "
                       "expressions. Sizes are integers: write a >= b + 1 for a > b.")
                raise ValueError(msg)
            try:
                left, right = (parse_dimension(e, self) for e in str(text).split(relation, 1))
            except ValueError as error:
                msg = f"the constraint {text!r}: {error}"
                raise ValueError(msg) from None
            if relation == "<=":
                left, relation, right = right, ">=", left
            self.require(str(text), left, relation, right)


@boundary
def symbolic_shape(shape_spec: str | None, *, constraints: Sequence[str] = (),
                   scope: SymbolicScope | None = None,
                   like: Sequence[int | None] | None = None) -> tuple[Any, ...]:
    """A shape with symbolic dimensions, from a string.

    Args:
      shape_spec: sizes separated by commas, such as "b, 2*c, 3". A size is a sum of products of
        integers, symbols, powers as `b^2`, and floordiv, mod, max and min of two sizes. `_` is
        the size of `like` there, and `...` at the end all that follow; None means "...".
      constraints: constraints on all future arguments, such as "a >= 2", for a new scope.
      scope: the scope of the symbols; by default a new one. Symbols of different scopes do not
        mix.
      like: a shape.

    Returns:
      A tuple of ints and symbolic dimensions.

    Raises:
      ValueError: the string cannot be parsed or does not fit `like`; or both a scope and
        constraints are given.

    Example:
      >>> mjax.export.symbolic_shape("b, 2*b + 1, 3")
      (b, 2*b + 1, 3)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        msg = "symbolic_shape: give a scope, or constraints for a new one, not both."
        raise ValueError(msg)
    return _Reader("..." if shape_spec is None else shape_spec, scope).shape(like)


@boundary
def symbolic_args_specs(args: Any, shapes_specs: Any, constraints: Sequence[str] = (),
                        scope: SymbolicScope | None = None) -> Any:
    """Types with symbolic shapes for a pytree of arguments.

    Args:
      args: a pytree of arrays or `ShapeDtypeStruct`s, for dtypes and for sizes that the strings
        leave out.
      shapes_specs: a string for all of them, as in `symbolic_shape`, or a pytree of strings that
        is a prefix of `args`.
      constraints, scope: as in `symbolic_shape`.

    Returns:
      A pytree like `args` of `ShapeDtypeStruct`s.

    Raises:
      ValueError: as `symbolic_shape` does; or the pytrees do not fit.

    Example:
      >>> mjax.export.symbolic_args_specs((jnp.ones((3, 4)),), "b, ...")
      (ShapeDtypeStruct(shape=(b, 4), dtype=float32),)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        msg = "symbolic_args_specs: give a scope, or constraints for a new one, not both."
        raise ValueError(msg)
    leaves, tree = tree_flatten(args)
    texts = broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)
    return tree_unflatten(tree, [
        ShapeDtypeStruct(_Reader("..." if text is None else text, scope).shape(aval.shape),
                         aval.dtype)
        for text, aval in zip(texts, map(aval_of, leaves), strict=True)])


def parse_dimension(text: str, scope: Scope) -> Any:
    """The size of a string."""
    reader = _Reader(text, scope)
    size = reader.sum()
    reader.expect("")
    return size


_TOKEN = re.compile(r"\s*(\.\.\.|[^\W\d]\w*|[0-9]+|[-+*^,()]|$)")
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "max": max_dim, "min": min_dim}


class _Reader:
    """Parses one string, by recursive descent. The token "" is the end."""

    def __init__(self, text: str, scope: Scope):
        if not isinstance(text, str):
            msg = f"a symbolic shape must be a text or None, got {text!r}."
            raise ValueError(msg)
        self.text, self.scope, self.place = text, scope, 0
        self.token = ""
        self.step()

    def step(self) -> str:
        """Returns the current token and advances to the next."""
        found = _TOKEN.match(self.text, self.place)
        if found is None:
            self.refuse(f"{self.text[self.place:].strip()[0]!r} has no meaning there")
        old, self.token, self.start = self.token, found[1], found.start(1)
        self.place = found.end()
        return old

    def refuse(self, why: str) -> NoReturn:
        msg = (f"cannot read the symbolic shape {self.text!r} from "
               f"{self.text[getattr(self, 'start', 0):]!r} on: {why}.")
        raise ValueError(msg)

    def expect(self, token: str) -> None:
        if self.token != token:
            self.refuse(f"expected {token or 'the end'!r}")
        self.step()

    def shape(self, like: Sequence[int | None] | None) -> tuple[Any, ...]:
        wrapped = self.token == "(" and self.step()
        sizes: list[Any] = []
        end = ")" if wrapped else ""
        while self.token != end:
            if self.token == "...":
                if like is None or len(like) < len(sizes):
                    self.refuse(f"'...' stands for the rest of a shape, and like={like}")
                sizes += [self._known(like, i) for i in range(len(sizes), len(like))]
                self.step()
                break
            sizes.append(self._dimension(like, len(sizes)))
            if self.token != end:
                self.expect(",")
        self.expect(end)
        if wrapped:
            self.expect("")
        return tuple(sizes)

    def _known(self, like: Any, i: int) -> Any:
        if like is None or i >= len(like) or like[i] is None:
            self.refuse(f"it does not say the size of dimension {i}, and like={like}")
        return like[i]

    def _dimension(self, like: Any, i: int) -> Any:
        if self.token == "_":
            size = self._known(like, i)
            self.step()
            return size
        size = self.sum()
        if type(size) is int and like is not None and i < len(like) and like[i] not in (size, None):
            self.refuse(f"dimension {i} is {size}, and like={like}")
        return size

    def sum(self) -> Any:
        total: Any = 0
        sign = -1 if self.token == "-" and self.step() else 1
        while True:
            total = total + sign * self.term()
            if self.token not in ("+", "-"):
                return total
            sign = -1 if self.step() == "-" else 1

    def term(self) -> Any:
        product = self.atom()
        while self.token == "*":
            self.step()
            product = product * self.atom()
        return product

    def atom(self) -> Any:
        sign = -1 if self.token == "-" and self.step() else 1
        token = self.token
        if not re.fullmatch(r"\w+", token) or token == "_":
            self.refuse("expected an integer, a symbol or a function")
        self.step()
        if token in _FUNCTIONS:
            self.expect("(")
            left = self.sum()
            self.expect(",")
            right = self.sum()
            self.expect(")")
            base = _FUNCTIONS[token](left, right)
        else:
            base = int(token) if token.isdigit() else self.scope.symbol(token)
        if self.token == "^":
            self.step()
            if not self.token.isdigit():
                self.refuse("expected the power, an integer")
            base = base ** int(self.step())
        return sign * base
