"""Compiler tokens: values of a program that order its effects.

A program that has ordered effects has one token per token name, threaded through every
equation with such an effect, and through calls, branches and loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mjax._engine.ir.effects import Effect, token_name
from mjax._engine.primitives.emit import hlo, op


class TokenSet:
    """Tokens by name; immutable.

    Args:
      tokens: from effects, or names of tokens, to `ir.Value`s.

    Example:
      >>> from mjax_ext.interpreters.mlir import TokenSet
      >>> TokenSet({"log": "a token"}).get("log")
      'a token'
    """

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()):
        self._tokens: dict[str, Any] = {_name(k): v for k, v in dict(tokens).items()}

    @classmethod
    def create(cls, effects: Iterable[Effect]) -> TokenSet:
        """New tokens for effects, made at the insertion point."""
        return cls({e: op("stablehlo.create_token", [hlo.TokenType.get()], [])[0]
                    for e in effects})

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which programs take their tokens."""
        return tuple(sorted(self._tokens))

    def get(self, effect: Effect | str) -> Any:
        """The token of an effect, or of a name."""
        return self._tokens[_name(effect)]

    def values(self) -> list[Any]:
        """The tokens in the order of their names."""
        return [self._tokens[name] for name in self.names]

    def items(self) -> list[tuple[str, Any]]:
        """Names and tokens, in order."""
        return sorted(self._tokens.items())

    def subset(self, names: Iterable[str]) -> TokenSet:
        """Only the tokens of these names."""
        return TokenSet({name: self._tokens[name] for name in names})

    def update_tokens(self, others: TokenSet) -> TokenSet:
        """These tokens, with those of `others` in place of their own."""
        return TokenSet({**self._tokens, **others._tokens})

    def replaced(self, values: Iterable[Any]) -> TokenSet:
        """The same names with other tokens, in order."""
        return TokenSet(zip(self.names, values, strict=True))

    def __len__(self) -> int:
        return len(self._tokens)

    def __repr__(self) -> str:
        return f"TokenSet({', '.join(self.names)})"


def _name(effect: Effect | str) -> str:
    if isinstance(effect, str):
        return effect
    name = token_name(effect)
    if name is None:
        msg = f"the effect {effect!r} is not ordered: it has no token."
        raise ValueError(msg)
    return name


no_tokens = TokenSet()
