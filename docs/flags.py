"""Makes docs/flags.md, and the types of `mjax.config`, from the tables of flags.

`python -m docs.flags` writes both anew.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill, indent

import mjax
from mjax._flags.foreign import FOREIGN, VARIABLES
from mjax._flags.table import OF_FUNCTIONS, OPTIONS, SETTINGS, Flag

PAGE = Path(__file__).with_name("flags.md")
STUB = Path(mjax.__file__).parent / "_engine" / "base" / "flag_types.pyi"
#: The types of flags whose values `config.checks` or the file system check.
_TYPES = {"compilation_cache_dir": "str | os.PathLike[str] | None",
          "platform_name": "str | None", "platforms": "str | None"}
_INTRO = """# Flags

`mjax.config.update("jax_enable_x64", True)` sets a flag for the process; most have a context
manager that sets it for a thread (`mjax.enable_x64(True)`). The names of JAX are taken with `jax_`
or without. The environment variables `JAX_<NAME>` and `MJAX_<NAME>` give the initial values.

Type checkers refuse names that are not flags. `setattr(mjax.config, name, value)` is `update` for
names that a program computes.

Every flag and environment variable of jax 0.10.2 is on this page. `python -m docs.flags` makes it
from the tables that `mjax.config` itself reads.

## Honoured

| flag | default | |
|---|---|---|
{honoured}

The compilation cache (`compilation_cache_dir`) holds programs that run on one process and call no
Python. Its keys include the program, its options, the devices, jaxlib and the processor. Damaged
entries are compiled again, with a warning.

## Ignored

They accept every value and have no effect.

| flag | default | why |
|---|---|---|
{ignored}

## Refused

Other values are errors that state the reason.

| flag | only value | why |
|---|---|---|
{refused}

## Environment variables without a flag

| variable | |
|---|---|
{variables}
"""


def page() -> str:
    """The page as it has to be."""
    honoured = [(f.name, f.default, f.doc) for f in (*SETTINGS, *OPTIONS)
                if f.foreign is None and f.name not in OF_FUNCTIONS]
    return _INTRO.format(
        honoured=_rows(honoured),
        ignored=_rows([(f.name, f.default, f.why) for f in FOREIGN if not f.refused]),
        refused=_rows([(f.name, f.default, f.why) for f in FOREIGN if f.refused]),
        variables="\n".join(f"| `{name}` | {what} |" for name, what in VARIABLES.items()))


def _rows(rows: list[tuple[str, object, str]]) -> str:
    return "\n".join(f"| `{name}` | `{default!r}` | {text} |" for name, default, text in
                     sorted(rows, key=lambda row: row[0]))


_STUB = '''\
"""The flags of `mjax.config`, for type checkers; `python -m docs.flags` writes this file."""

import os
from typing import Any, Literal, TypeAlias

FlagName: TypeAlias = Literal[
{names}
]

class Flags:
    """`mjax._engine.base.config.Config`, with each flag under its two names."""

    def update(self, name: FlagName, value: Any) -> None: ...
    def read(self, name: FlagName) -> Any: ...
    @property
    def values(self) -> dict[str, Any]: ...
{attributes}
'''


def stub() -> str:
    """The types as they have to be."""
    flags = {prefix + f.name: _type(f) for prefix in ("", "jax_")
             for f in sorted((*SETTINGS, *OPTIONS), key=lambda f: f.name)
             if f.name not in OF_FUNCTIONS}
    return _STUB.format(
        names=indent(fill(", ".join(f'"{name}"' for name in flags), 95), " " * 4),
        attributes="\n".join(f"    {name}: {kind}" for name, kind in flags.items()))


def _type(flag: Flag) -> str:
    if isinstance(flag.accepts, type):
        return flag.accepts.__name__
    if flag.accepts is None:
        return _TYPES.get(flag.name, "Any")
    return "str | None" if None in flag.accepts else "str"


if __name__ == "__main__":
    PAGE.write_text(page())
    STUB.write_text(stub())
