"""`pjit`, as JAX called `jit` with shardings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.runtime.dispatch.jit import jit


def pjit(fun: Callable[..., Any], in_shardings: Any = None, out_shardings: Any = None,
         static_argnums: Any = None, static_argnames: Any = None, donate_argnums: Any = None,
         donate_argnames: Any = None, keep_unused: bool = False, device: Any = None,
         backend: str | None = None, inline: bool = False,
         compiler_options: dict[str, Any] | None = None) -> Any:
    """`mjax.jit`, with all its arguments by place too; see there.

    Example:
      >>> from mjax.experimental.pjit import pjit
      >>> pjit(lambda x: x + 1)(1)
      Array(2, dtype=int32, weak_type=True)
    """
    return jit(fun, in_shardings=in_shardings, out_shardings=out_shardings,
               static_argnums=static_argnums, static_argnames=static_argnames,
               donate_argnums=donate_argnums, donate_argnames=donate_argnames,
               keep_unused=keep_unused, device=device, backend=backend, inline=inline,
               compiler_options=compiler_options)
