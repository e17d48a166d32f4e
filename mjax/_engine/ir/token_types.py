"""The type of tokens, `AbstractToken`, and that of the arrays that represent them."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyNoArrayError
from mjax._engine.base.util import pickled_as
from mjax._engine.ir.types import AbstractValue, ShapedArray


def token_lacks(name: str) -> Exception:
    """The error for reading an attribute of arrays from a token."""
    return LazyNoArrayError(lambda: (
        f"a token does not have {name}: it is not an array, and does not hold numbers. Under vmap "
        "its in_axes and out_axes are None; functions under jvp neither take it nor give it, and "
        "bodies of scan do not give it as a result."))


class AbstractToken(AbstractValue):
    """The type of tokens, which order effects. It has one instance.

    Example:
      >>> from mjax_ext import core
      >>> core.AbstractToken() is core.abstract_token
      True
    """

    __slots__ = ()
    _is_stored = True

    def __new__(cls) -> AbstractToken:
        return _tokens[0] if _tokens else object.__new__(cls)

    def __reduce__(self) -> Any:
        return _abstract_token, ()

    def __getattr__(self, name: str) -> Any:
        raise token_lacks(name)

    def _refuse(self, method: str, what: str) -> NoReturn:
        raise token_lacks(method)

    to_cotangent_aval: Final = AbstractValue.to_tangent

    def physical(self) -> tuple[ShapedArray, ...]:
        """The type of tokens between programs."""
        return (token_buffer_aval,)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        """Its text in printed jaxprs."""
        return "Tok"

    def __repr__(self) -> str:
        return "AbstractToken()"


@pickled_as("abstract_token_v1")
def _abstract_token() -> AbstractToken:
    return abstract_token


_tokens: list[AbstractToken] = []
abstract_token: Final = AbstractToken()
_tokens.append(abstract_token)
#: The type of the arrays that represent tokens between programs.
token_buffer_aval = ShapedArray((0,), np.dtype(bool))
