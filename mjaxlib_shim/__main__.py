"""`python -m mjaxlib_shim [--json]`: versions and gates, what is wrong, and what fixes it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from typing import Any

from .examination import (
    JAXLIB_VERSION,
    SHIM,
    Examination,
    Finding,
    command,
    examine,
    findings_of,
    interpreter_options,
    location,
    version_of,
)
from .starting import show
from .versions import FLOOR, NEWEST, SUPPORT

__all__ = ["GATES", "REQUIREMENTS", "about", "heading", "main", "table", "verdict", "wrong_gates"]

#: The packages that jaxlib needs.
REQUIREMENTS = ("numpy", "ml_dtypes")
GATES = f"{SHIM}.facts:gates"
#: Distributions that matter to a bug report beside jaxlib. `jax` is not used; whether it is
#: installed says which hidden imports could have happened.
_OTHERS = ("mjax", "numpy", "ml_dtypes", "scipy", "jax")


def about(examination: Examination, packages: Sequence[str] = _OTHERS) -> dict[str, Any]:
    """The facts about jaxlib, Python and packages, as JSON-able data.

    If mjax cannot run, without a jaxlib or with one outside of the window, the gates are not known.
    """
    unknown: dict[str, Any] = {
        "extension_version": None, "releases_with_this_extension_version": [], "gates": [],
    }
    version = (examination.facts(JAXLIB_VERSION) or {}).get("version") or version_of("jaxlib")
    return {
        "jaxlib": version,
        "folder": location("jaxlib"),
        **(examination.facts(GATES) or unknown),
        "window": [FLOOR, NEWEST],
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": {name: version_of(name) for name in packages},
        "support": [release._asdict() for release in SUPPORT],
    }


def wrong_gates(gates: Sequence[dict[str, Any]]) -> list[Finding]:
    """Those whose probes do not find what their declarations say."""
    names = [gate["name"] for gate in gates if gate["declared"] != gate["probed"]]
    if not names:
        return []
    return [Finding(f"jaxlib differs from what mjax knows of it, in: {', '.join(names)}. Please "
                    "report this, with this table.")]


def verdict(findings: Sequence[Finding]) -> dict[str, Any]:
    """Problems, warnings and their remedies, as JSON-able data."""
    fatal = [finding for finding in findings if finding.fatal]
    rest = [finding for finding in findings if not finding.fatal]
    return {
        "usable": not fatal,
        "problem": "\n".join(finding.text for finding in fatal) or None,
        "remedy": command(fatal),
        "warnings": [{"text": f.text, "remedy": command([f])} for f in rest],
    }


def heading(data: dict[str, Any]) -> list[str]:
    """The first lines of a report."""
    packages = ", ".join(f"{name} {version or '-'}" for name, version in data["packages"].items())
    known = data["extension_version"] is not None
    state = f"extension version {data['extension_version']}" if known else "cannot be used"
    return [
        f"jaxlib    {data['jaxlib'] or '-'} ({state}) in {data['folder'] or '-'}",
        f"window    {' to '.join(data['window'])}",
        f"python    {data['python']} on {data['platform']}: {data['executable']}",
        f"packages  {packages}",
    ]


def table(data: dict[str, Any]) -> list[str]:
    """The gates in words, then what is wrong."""
    lines = []
    for gate in data["gates"]:
        wrong = "" if gate["declared"] == gate["probed"] else "  <-- MISMATCH"
        state, words = ("open", gate["changed"]) if gate["declared"] else ("closed", gate["why"])
        lines.append(f"{gate['name']:<24}{gate['since_release']:<9}"
                     f"{gate['since_extension_version']:<5}{state:<8}{words}{wrong}")
    if lines:
        lines = ["", f"{'gate':<24}{'since':<9}{'ext':<5}{'state':<8}in words", *lines]
    lines.append("")
    for warning in data["warnings"]:
        lines.append(f"warning: {warning['text']}")
        lines += [f"  {warning['remedy']}"] if warning["remedy"] else []
    if data["usable"]:
        return [*lines, "mjax can run here."]
    lines += [f"problem: {line}" for line in data["problem"].splitlines()]
    return [*lines, "mjax cannot be used here.",
            *([f"To fix it, run:\n  {data['remedy']}"] if data["remedy"] else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; the exit status is 1 if mjax cannot run here, or a gate is wrong."""
    parser = argparse.ArgumentParser(prog="python -m mjaxlib_shim", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    examination = examine([*REQUIREMENTS, JAXLIB_VERSION, SHIM, GATES],
                          [*REQUIREMENTS, JAXLIB_VERSION], options=interpreter_options())
    data = about(examination)
    findings = findings_of(examination, REQUIREMENTS, sys.version_info[:2])
    data |= verdict([*findings, *wrong_gates(data["gates"])])
    show(json.dumps(data, indent=2) if options.json else "\n".join(heading(data) + table(data)))
    return int(not data["usable"])


if __name__ == "__main__":
    sys.exit(main())
