"""Makes docs/flags.md from the tables of flags: `python -m docs.flags` writes it anew."""

from __future__ import annotations

from pathlib import Path

from mjax._flags.foreign import FOREIGN, VARIABLES
from mjax._flags.table import OF_FUNCTIONS, OPTIONS, SETTINGS

PAGE = Path(__file__).with_name("flags.md")
_INTRO = """# Flags

`mjax.config.update("jax_enable_x64", True)` sets a flag for the process; most have a context
manager that sets it for a thread (`mjax.enable_x64(True)`). The names of JAX are taken with `jax_`
or without. The environment variables `JAX_<NAME>` and `MJAX_<NAME>` give the initial values.

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


if __name__ == "__main__":
    PAGE.write_text(page())
