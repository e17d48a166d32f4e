"""The environment variables that mjax, XLA and jaxlib read, and those that look like them.

Standard library only: `python -m mjax` reads them where nothing else can be imported.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mjax._flags.foreign import VARIABLES
from mjax._flags.table import OF_FUNCTIONS, OPTIONS, PREFIXES, SETTINGS, Flag, from_environment
from mjaxlib_shim.versions import UNTESTED_VARIABLE

_FLAGS: dict[str, Flag] = {f.name: f for f in (*SETTINGS, *OPTIONS) if f.name not in OF_FUNCTIONS}
_SECRETS = ("AUTH", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN")
_SIMILAR = 0.85
_XLA = "XLA_"


class Variable(NamedTuple):
    """A variable that is set.

    `meaning`: what mjax does with it. `misspelt`: whether nothing reads it, though its name says
    that something should; `meant` is then the name it may stand for.
    """

    name: str
    value: str
    meaning: str
    misspelt: bool = False
    meant: str | None = None


@functools.cache
def known() -> dict[str, str]:
    """All variables with a meaning, and what it is."""
    found = {prefix + name.upper(): _of_flag(flag)
             for name, flag in _FLAGS.items() for prefix in PREFIXES}
    ours = {name.replace("JAX_", "MJAX_", 1): text for name, text in VARIABLES.items()
            if name.startswith("JAX_") and "initialize" in text}
    return {**found, **VARIABLES, **ours,
            "MJAX_COORDINATOR_PORT": "honoured by mjax.distributed.initialize",
            UNTESTED_VARIABLE: "honoured: the reaction to a newer jaxlib"}


def variables(environ: Mapping[str, str]) -> list[Variable]:
    """The variables of an environment that matter."""
    found = []
    for name, value in sorted(environ.items()):
        if name in known():
            found.append(Variable(name, shown(name, value), known()[name]))
        elif "JAX" in name.upper() or "XLA" in name.upper():
            found += _unknown(name, value)
    return found


def shown(variable: str, value: str) -> str:
    """The value of a variable; hidden if it does not belong to a flag and may be a secret."""
    flag = variable.partition("_")[2].lower()
    secret = flag not in _FLAGS and any(word in variable.upper() for word in _SECRETS)
    return "<hidden>" if secret else value


def settings(environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The flags whose variables set them to other values than their defaults, and variable ->
    message for those whose text is not understood."""
    values, refused = {}, {}
    for name, flag in _FLAGS.items():
        try:
            value = from_environment(flag, environ)
        except ValueError as error:
            refused[variable_of(name, environ)] = str(error)
            continue
        if value != flag.default:
            values[name] = value
    return values, refused


def variable_of(flag: str, environ: Mapping[str, str]) -> str:
    """The variable that sets a flag."""
    names = [prefix + flag.upper() for prefix in PREFIXES]
    return next((name for name in names if environ.get(name)), names[0])


def mentions(message: str, variable: str) -> bool:
    """Whether a message names a variable, or the flag that it sets."""
    flag = variable.partition("_")[2].lower()
    return variable in message or (
        flag in _FLAGS and re.search(rf"\b{flag}\b", message) is not None)


def _of_flag(flag: Flag) -> str:
    if flag.foreign is None:
        return f"honoured: {flag.doc}"
    return f"{'refused, but for its default' if flag.foreign.refused else 'ignored'}: {flag.doc}"


def _unknown(name: str, value: str) -> list[Variable]:
    close = difflib.get_close_matches(name.upper(), known(), 1, _SIMILAR)
    ours = name.startswith(PREFIXES)
    if not close and not ours:
        # XLA and its plugins read more of them than mjax knows.
        of_xla = name.startswith(_XLA)
        return [Variable(name, shown(name, value), "not mjax's")] if of_xla else []
    return [Variable(name, shown(name, value), "nothing reads it", True,
                     close[0] if close else None)]
