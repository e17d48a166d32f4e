"""The window: which jaxlib releases mjax runs on, and the check against it.

The table is plain data and this file imports nothing but the standard library, so
that `noxfile.py` and packaging scripts can load it with `runpy.run_path` where no
jaxlib is installed. To move the window, edit `SUPPORT` (newest at the end) and run
the shim's tests: they list the gates that a higher floor makes superfluous.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "FLOOR",
    "NEWEST",
    "SUPPORT",
    "JaxlibMissingError",
    "JaxlibVersionError",
    "Release",
    "UntestedJaxlibWarning",
    "check",
    "installable",
    "pip_command",
]


class Release(NamedTuple):
    """One supported jaxlib release.

    `max_python` is the newest Python that has wheels, None while the release line is
    still growing; `matrix` marks the releases on which the whole test suite runs.

    Args:
      version: its version.
      extension_version: the number of its C++ interface.
      stablehlo: the version of StableHLO that it writes.
      min_python: the oldest Python that has wheels.
      max_python: the newest one, or None.
      matrix: whether all tests run on it.

    Example:
      >>> import mjaxlib_shim
      >>> mjaxlib_shim.SUPPORT[0].version == mjaxlib_shim.FLOOR
      True
    """

    version: str
    extension_version: int
    stablehlo: str
    min_python: tuple[int, int]
    max_python: tuple[int, int] | None
    matrix: bool


_PY310, _PY311, _PY312, _PY313, _PY314, _PY315 = ((3, minor) for minor in range(10, 16))

#: The releases of the window, the oldest first.
SUPPORT: tuple[Release, ...] = (
    Release("0.4.36", 299, "1.8.5", _PY310, _PY313, True),
    Release("0.4.38", 301, "1.8.7", _PY310, _PY313, False),
    Release("0.5.0", 303, "1.8.9", _PY310, _PY313, False),
    Release("0.5.1", 317, "1.9.3", _PY310, _PY313, False),
    Release("0.5.3", 320, "1.10.0", _PY310, _PY313, True),
    Release("0.6.0", 330, "1.10.4", _PY310, _PY313, False),
    Release("0.6.1", 342, "1.10.9", _PY310, _PY313, False),
    Release("0.6.2", 355, "1.11.0", _PY310, _PY313, True),
    Release("0.7.0", 364, "1.12.1", _PY311, _PY313, False),
    Release("0.7.1", 368, "1.13.0", _PY311, _PY314, False),
    Release("0.7.2", 373, "1.13.0", _PY311, _PY314, False),
    Release("0.8.0", 380, "1.13.1", _PY311, _PY314, False),
    Release("0.8.1", 387, "1.13.3", _PY311, _PY314, False),
    Release("0.8.2", 391, "1.13.5", _PY311, _PY314, False),
    Release("0.8.3", 391, "1.13.5", _PY311, _PY314, True),
    Release("0.9.0", 397, "1.13.7", _PY311, _PY314, False),
    Release("0.9.0.1", 397, "1.13.7", _PY311, _PY314, False),
    Release("0.9.1", 410, "1.13.8", _PY311, _PY314, False),
    Release("0.9.2", 420, "1.14.0", _PY311, _PY314, False),
    Release("0.10.0", 439, "1.16.0", _PY311, _PY314, False),
    Release("0.10.1", 452, "1.17.0", _PY311, _PY314, False),
    Release("0.10.2", 467, "1.17.0", _PY311, _PY314, True),
    Release("0.11.0", 477, "1.18.0", _PY312, _PY314, False),
    Release("0.11.1", 480, "1.19.0", _PY312, _PY315, False),
    Release("0.11.2", 495, "1.20.0", _PY312, _PY315, False),
    Release("0.12.0", 505, "1.22.0", _PY312, None, False),
    Release("0.12.0.1", 505, "1.22.0", _PY312, None, True),
)

#: The oldest and the newest release of the window.
FLOOR: str = SUPPORT[0].version
NEWEST: str = SUPPORT[-1].version

#: Environment variable that sets the reaction to a jaxlib newer than `NEWEST`.
UNTESTED_VARIABLE = "MJAX_UNTESTED_JAXLIB"
_UNTESTED_CHOICES = ("warn", "ignore", "error")


class JaxlibVersionError(ImportError):
    """The installed jaxlib is outside the window (or untested, when that is an error)."""


class JaxlibMissingError(ImportError):
    """No jaxlib is installed, or not one that can be imported."""


class UntestedJaxlibWarning(UserWarning):
    """The installed jaxlib is newer than the newest one mjax was tested on."""


def check(
    installed: str | None = None,
    *,
    python: tuple[int, int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Checks a jaxlib version against the window and returns it.

    Args:
      installed: a PEP 440 version; None: that of the installed jaxlib, without loading its
        C++ libraries. dev and rc releases are ordered by PEP 440; local and post parts
        (same code, packaged again) are ignored.
      python: (major, minor) for which the pip command is written; default: the
        running one.
      environ: where MJAX_UNTESTED_JAXLIB is looked up; default: `os.environ`.

    Returns:
      The version.

    Raises:
      JaxlibMissingError: no jaxlib is installed.
      JaxlibVersionError: jaxlib is older than `FLOOR`; or newer than `NEWEST` with
        MJAX_UNTESTED_JAXLIB=error.
      ValueError: MJAX_UNTESTED_JAXLIB is none of warn, ignore and error.

    Warns:
      UntestedJaxlibWarning: newer than `NEWEST`, unless MJAX_UNTESTED_JAXLIB=ignore.

    Example:
      >>> import mjaxlib_shim
      >>> mjaxlib_shim.check("0.6.2")
      '0.6.2'
    """
    python = python or (sys.version_info[0], sys.version_info[1])
    if installed is None:
        installed = _installed_version(python)
    choice = _untested_choice(os.environ if environ is None else environ)
    # Importing packaging costs milliseconds; the common case needs no ordering.
    if any(installed == release.version for release in SUPPORT):
        return installed
    version, floor, newest = (_ordered(v) for v in (installed, FLOOR, NEWEST))
    if version < floor:
        raise JaxlibVersionError(
            f"jaxlib {installed} is too old for mjax, which runs on jaxlib {FLOOR} to "
            f"{NEWEST}. Install a supported one with:\n  {pip_command(python)}"
        )
    if version > newest:
        _untested(installed, python, choice)
    return installed


def installable(python: tuple[int, int]) -> Release | None:
    """The newest supported release that has wheels for this Python, or None.

    Args:
      python: `(major, minor)`.

    Returns:
      A `Release`, or None.

    Raises:
      TypeError: `python` is not a tuple of ints.

    Example:
      >>> from mjaxlib_shim.versions import installable
      >>> installable((3, 11)).version
      '0.10.2'
    """
    for release in reversed(SUPPORT):
        newest_python = release.max_python
        if release.min_python <= python and (newest_python is None or python <= newest_python):
            return release
    return None


def _installed_version(python: tuple[int, int]) -> str:
    try:
        # A pure Python file: `import jaxlib` loads no C++.
        from jaxlib.version import __version__
    except ImportError as error:
        command = pip_command(python)
        if error.name == "jaxlib" and not _is_listed():
            advice = f"Install it with:\n  {command}"
        else:  # pip believes that it is there
            again = command.replace("pip install ", "pip install --force-reinstall ")
            advice = f"A part of it is there. Install it anew with:\n  {again}"
        raise JaxlibMissingError(
            "mjax needs jaxlib (and only jaxlib, not jax), which cannot be imported "
            f"({error}). {advice}"
        ) from error
    return str(__version__)


def _is_listed() -> bool:
    """Whether jaxlib's metadata are there."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return bool(version("jaxlib"))
    except PackageNotFoundError:
        return False


def _ordered(text: str):  # type: ignore[no-untyped-def]  # packaging's Version, see above
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(text)
    except InvalidVersion:
        raise JaxlibVersionError(
            f"jaxlib calls itself {text!r}, which is not a PEP 440 version; mjax runs on "
            f"jaxlib {FLOOR} to {NEWEST}"
        ) from None
    pre = "".join(map(str, version.pre or ()))
    dev = "" if version.dev is None else f".dev{version.dev}"
    return Version(f"{version.base_version}{pre}{dev}")


def _untested_choice(environ: Mapping[str, str]) -> str:
    choice = environ.get(UNTESTED_VARIABLE, "warn").strip().lower() or "warn"
    if choice not in _UNTESTED_CHOICES:
        raise ValueError(
            f"{UNTESTED_VARIABLE}={choice} is not understood: use one of "
            + ", ".join(_UNTESTED_CHOICES)
        )
    return choice


def _untested(installed: str, python: tuple[int, int], choice: str) -> None:
    if choice == "ignore":
        return
    text = (
        f"jaxlib {installed} is newer than the newest one mjax was tested on "
        f"({NEWEST}; the window is {FLOOR} to {NEWEST})."
    )
    if choice == "error":
        raise JaxlibVersionError(
            f"{text} {UNTESTED_VARIABLE}=error makes this an error. Unset it, or install a "
            f"tested one with:\n  {pip_command(python)}"
        )
    # At the line that imports mjax, through any number of our modules and importlib's.
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    warnings.warn_explicit(
        f"{text} Set {UNTESTED_VARIABLE}=ignore to silence this warning or "
        f"{UNTESTED_VARIABLE}=error to make it an error.",
        UntestedJaxlibWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_ours(file: str) -> bool:
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = os.path.relpath(file, packages).split(os.sep)[0] if os.path.isabs(file) else ""
    return folder in ("mjax", "mjax_ext", "mjaxlib_shim") or "importlib" in file


def pip_command(python: tuple[int, int]) -> str:
    """The command that installs the newest supported jaxlib that has wheels for this Python.

    Args:
      python: `(major, minor)`.

    Returns:
      A string.

    Raises:
      TypeError: `python` is not a tuple of ints.
      IndexError: it has fewer than two numbers, and no release has wheels for it.

    Example:
      >>> from mjaxlib_shim.versions import pip_command
      >>> "jaxlib" in pip_command((3, 11))
      True
    """
    release = installable(python)
    if release is None:
        need = installable((3, 12)) or SUPPORT[-1]
        return (
            f"python3.12 -m pip install jaxlib=={need.version}"
            f"   (no supported jaxlib has wheels for Python {python[0]}.{python[1]})"
        )
    return f"python -m pip install jaxlib=={release.version}"
