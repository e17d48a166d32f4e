"""Tries what may be broken in another process, which may die of it, and says what is wrong.

Standard library only. This process imports neither jaxlib nor anything else it asks about.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any, NamedTuple

from .versions import UNTESTED_VARIABLE, installable, pip_command

__all__ = [
    "JAXLIB_VERSION",
    "SHIM",
    "Examination",
    "Finding",
    "command",
    "examine",
    "findings_of",
    "interpreter_options",
    "location",
    "version_of",
]

_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_probe.py")
#: The stage that imports the shim; those before it import what jaxlib or mjax need.
SHIM = "mjaxlib_shim"
#: The stage that reads the version of jaxlib.
JAXLIB_VERSION = "jaxlib.version"


class Finding(NamedTuple):
    """Something that is wrong.

    `fatal`: whether mjax cannot be used. The remedy: `packages` to install (again if `reinstall`),
    `variables` to unset, or `other` commands.

    Args:
      text: what is wrong.
      packages: packages to install.
      variables: environment variables to unset.
      reinstall: whether the packages are to be installed again.
      other: another command.
      fatal: whether mjax cannot be used.

    Example:
      >>> from mjaxlib_shim import examination
      >>> examination.Finding("jaxlib is missing", packages=("jaxlib",)).reinstall
      False
    """

    text: str
    packages: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    reinstall: bool = False
    other: str | None = None
    fatal: bool = True


class Examination(NamedTuple):
    """The report of a probe: an outcome per stage, where and how it ended, and its stderr.

    Args:
      outcomes: stage -> what it gave.
      ended_in: the stage in which the process ended; None: it went through.
      how: how it ended.
      stderr: the last lines of its error output.

    Example:
      >>> from mjaxlib_shim import examination
      >>> report = examination.examine(["no_such_module"])
      >>> list(report.outcomes)
      ['no_such_module']
    """

    outcomes: dict[str, dict[str, Any]]
    ended_in: str | None
    how: str
    stderr: str

    def facts(self, stage: str) -> Any:
        """The outcome of a stage; None if it failed, or was not tried."""
        return self.outcomes.get(stage, {}).get("facts")


def examine(
    stages: Sequence[str], tolerated: Sequence[str] = (), *, options: Sequence[str] = (),
    seconds: float = 300,
) -> Examination:
    """Runs stages (see `_probe.main`) in a process like this one.

    Args:
      stages: modules and functions, in order.
      tolerated: stages after which the others are tried even if they fail.
      options: options of the interpreter.
      seconds: after so long the process is ended.

    Returns:
      The report.

    Raises:
      TypeError: `stages` or `tolerated` cannot be written as JSON, an option is not a text, or
        `seconds` is not a number.
      ValueError: an option has a null character.
      OSError: the interpreter cannot be started.

    Example:
      >>> from mjaxlib_shim import examination
      >>> examination.examine(["json"]).ended_in is None
      True
    """
    arguments = json.dumps([sys.path, list(stages), list(tolerated)])
    try:
        done = subprocess.run(
            [sys.executable, *options, _PROBE, arguments], capture_output=True, text=True,
            errors="replace", timeout=seconds, check=False, stdin=subprocess.DEVNULL,
        )
        out, err, how = done.stdout, done.stderr, _how_it_ended(done.returncode)
    except subprocess.TimeoutExpired as late:
        out, err = (_text(stream) for stream in (late.stdout, late.stderr))
        how = f"did not end in {seconds:.0f} s"
    outcomes: dict[str, dict[str, Any]] = {}
    last = None
    for line in out.splitlines():
        if not line.startswith('{"'):  # others print, too, before the probe begins: sitecustomize
            continue
        said = json.loads(line)
        if "begins" in said:
            last = said["begins"]
        else:
            outcomes[said.pop("stage")] = said
            last = None
    started = bool(out)
    return Examination(outcomes, last if started else "python", how, err)


def findings_of(
    examination: Examination, requirements: Sequence[str], python: tuple[int, int]
) -> list[Finding]:
    """Problems of the requirements, and of jaxlib.

    Args:
      examination: the report.
      requirements: requirements of mjax, as pip writes them.
      python: the version of Python, `(major, minor)`.

    Returns:
      A list of findings.

    Raises:
      AttributeError: `examination` is not a report.
      TypeError: `requirements` are not names, or `python` is needed and not a tuple.
      KeyError: an outcome does not have the entries that `examine` writes.

    Example:
      >>> from mjaxlib_shim import examination
      >>> report = examination.examine(["no_such_module"])
      >>> examination.findings_of(report, [], (3, 11))
      []
    """
    found: list[Finding] = []
    for name in requirements:
        outcome = examination.outcomes.get(name, {})
        missing = outcome.get("module") == name
        if "error" in outcome and (missing or not found):  # else an earlier one may be the reason
            found.append(_unless_hidden(name, _of_requirement(name, missing, outcome)))
    of_jaxlib = examination.outcomes.get(SHIM, {})
    if "error" in of_jaxlib and (finding := _of_jaxlib(of_jaxlib, python, bool(found))):
        found.append(_unless_hidden("jaxlib", finding))
    if examination.ended_in is not None:
        found.append(_of_end(examination, requirements, python))
    found += [Finding(text, fatal=False) for outcome in examination.outcomes.values()
              for text in outcome["warnings"]]
    return [*found, *_of_metadata(examination, python)]


def command(findings: Sequence[Finding]) -> str | None:
    """The command that fixes all of it.

    Args:
      findings: the findings.

    Returns:
      A command, or None.

    Raises:
      TypeError: `findings` is not iterable, or a package is not a string.
      AttributeError: an element is not a finding.

    Example:
      >>> from mjaxlib_shim import examination
      >>> examination.command([]) is None
      True
    """
    packages = dict.fromkeys(p for finding in findings for p in finding.packages)
    variables = dict.fromkeys(v for finding in findings for v in finding.variables)
    others = dict.fromkeys(f.other for f in findings if f.other)
    parts = []
    if variables and os.name == "nt":
        parts += [f"set {name}=" for name in variables]
    elif variables:
        parts.append(f"unset {' '.join(variables)}")
    if packages:
        again = "--force-reinstall " if any(f.reinstall for f in findings) else ""
        parts.append(f"python -m pip install {again}{' '.join(packages)}")
    return " && ".join([*parts, *others]) or None


def version_of(name: str) -> str | None:
    """The version of an installed distribution.

    Args:
      name: the name of the distribution.

    Returns:
      A version; None if it is not installed, or its metadata is damaged.

    Raises:
      ValueError: the name is empty or None.
      TypeError: the name is not a string but a number, for example.

    Example:
      >>> from mjaxlib_shim import examination
      >>> examination.version_of("no-such-distribution") is None
      True
    """
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, KeyError, UnicodeDecodeError):  # or a damaged one
        return None


def location(name: str) -> str | None:
    """The folder or file of a top-level module, which is not imported.

    Args:
      name: the name of the module.

    Returns:
      A path, or None.

    Raises:
      AttributeError: the name is not a string.

    Example:
      >>> from mjaxlib_shim import examination
      >>> examination.location("no_such_module") is None
      True
    """
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return next(iter(spec.submodule_search_locations))
    return spec.origin


def interpreter_options() -> list[str]:
    """The options of the interpreter in `python OPTIONS -m PACKAGE`; none otherwise.

    Example:
      >>> from mjaxlib_shim import examination
      >>> isinstance(examination.interpreter_options(), list)
      True
    """
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    for i, word in enumerate(before):
        if word[:1] == "-" and word[:2] != "--" and "m" in word and word[1] not in "WX":
            flags = word[1 : word.index("m")]
            return [*before[:i], *([f"-{flags}"] if flags else [])]
    return []


# -- each failure in words --


def _of_requirement(name: str, missing: bool, outcome: dict[str, Any]) -> Finding:
    if missing and version_of(name):
        text = f"{name} is listed by pip, but its files are not there; mjax needs it."
        return Finding(text, (name,), reinstall=True)
    if missing:
        return Finding(f"{name} is not installed; mjax needs it.", (name,))
    return Finding(f"{name} cannot be imported ({_said(outcome)}).", (name,), reinstall=True)


def _unless_hidden(name: str, finding: Finding) -> Finding:
    """A finding about a package, or that something else is imported in its place."""
    found = location(name)
    try:
        installed = str(metadata.distribution(name).locate_file(name))
    except metadata.PackageNotFoundError:
        return finding
    if found is None or not os.path.exists(installed) or os.path.samefile(found, installed):
        return finding
    text = f"{finding.text} {name} is {found} here, which hides {installed}."
    folder, own = os.path.split(found)
    if folder in map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        return Finding(text, variables=("PYTHONPATH",))
    rename = "move" if os.name == "nt" else "mv"
    return Finding(text, other=shlex.join([rename, found, os.path.join(folder, f"my_{own}")]))


def _of_jaxlib(outcome: dict[str, Any], python: tuple[int, int], excused: bool) -> Finding | None:
    if outcome["error"] == "ValueError" and UNTESTED_VARIABLE in outcome["message"]:
        return Finding(outcome["message"], variables=(UNTESTED_VARIABLE,))
    if outcome["error"] in ("JaxlibMissingError", "JaxlibVersionError"):
        return _install_jaxlib(outcome["message"], python, "--force-reinstall" in
                               outcome["message"])
    if excused:  # jaxlib needs what cannot be imported
        return None
    return _install_jaxlib(f"jaxlib cannot be imported ({_said(outcome)}).", python, True)


def _install_jaxlib(text: str, python: tuple[int, int], reinstall: bool = False) -> Finding:
    if "\n" in text:  # the last sentence introduces the command
        text = f"{text.partition(chr(10))[0].rpartition('. ')[0]}."
    release = installable(python)
    if release is None:
        return Finding(text, other=pip_command(python))
    return Finding(text, (f"jaxlib=={release.version}",), reinstall=reinstall)


def _of_end(
    examination: Examination, requirements: Sequence[str], python: tuple[int, int]
) -> Finding:
    stage = str(examination.ended_in)
    lines = examination.stderr.strip().splitlines()
    text = f"the process that tried {stage} {examination.how}" + (
        ": " + " / ".join(line.strip() for line in lines[-3:]) if lines else ".")
    if "XLA_FLAGS" in examination.stderr:
        return Finding(text, variables=("XLA_FLAGS",))
    if stage in requirements:
        return Finding(text, (stage,), reinstall=True)
    return _install_jaxlib(text, python, True)


def _of_metadata(examination: Examination, python: tuple[int, int]) -> list[Finding]:
    """Installed files that are not those of the installed distribution."""
    installed = version_of("jaxlib")
    facts = examination.facts(JAXLIB_VERSION) or {}
    found = facts.get("version")
    if None in (installed, found) or installed == found:
        return []
    text = (f"the jaxlib in {os.path.dirname(facts['file'])} calls itself {found}; {installed} is "
            "what was installed.")
    return [_install_jaxlib(text, python, True)._replace(fatal=False)]


def _said(outcome: dict[str, Any]) -> str:
    first = outcome["message"].strip().partition("\n")[0]
    return f"{outcome['error']}: {first}" if first else str(outcome["error"])


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _text(stream: bytes | str | None) -> str:
    return stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""
