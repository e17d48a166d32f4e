"""`python -m mjaxlib_shim [--json]`: versions and gates, for bug reports."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from . import FLOOR, NEWEST, SUPPORT, _problem

__all__ = ["main", "report"]

#: Distributions that matter to a bug report beside jaxlib. `jax` is not used; whether it is
#: installed says which hidden imports could have happened.
_OTHERS = ("mjax", "numpy", "ml_dtypes", "scipy", "jax")


if _problem is None:
    from . import GATES, extension_version, jaxlib_version


def report() -> dict[str, Any]:
    """Everything the command prints, as JSON-able data.

    If mjax cannot run, without a jaxlib or with one outside of the window, `problem` says why, and
    the gates are not known.
    """
    return {
        **_about_jaxlib(),
        "window": [FLOOR, NEWEST],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _OTHERS},
        "support": [release._asdict() for release in SUPPORT],
    }


def _about_jaxlib() -> dict[str, Any]:
    if _problem is not None:
        return {
            "jaxlib": _version("jaxlib"),
            "problem": str(_problem),
            "extension_version": None,
            "releases_with_this_extension_version": [],
            "gates": [],
        }
    return {
        "jaxlib": jaxlib_version,
        "problem": None,
        "extension_version": extension_version,
        "releases_with_this_extension_version": [
            r.version for r in SUPPORT if r.extension_version == extension_version
        ],
        "gates": [
            {
                "name": gate.name,
                "since_release": gate.since_release,
                "since_extension_version": gate.since_extension_version,
                "declared": gate.open,
                "probed": gate.probe(),
                "changed": gate.changed,
                "why": gate.why,
            }
            for gate in GATES
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report; the exit status is 1 if mjax cannot run here, or a gate is wrong."""
    parser = argparse.ArgumentParser(prog="python -m mjaxlib_shim", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    data = report()
    print(json.dumps(data, indent=2) if options.json else _table(data))
    wrong = any(gate["declared"] != gate["probed"] for gate in data["gates"])
    return int(wrong or data["problem"] is not None)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _table(data: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version or '-'}" for name, version in data["packages"].items())
    about = (
        f"(extension version {data['extension_version']})"
        if data["problem"] is None
        else "(mjax cannot run on it)"
    )
    lines = [
        f"jaxlib    {data['jaxlib'] or '-'} {about}",
        f"window    {' to '.join(data['window'])}",
        f"python    {data['python']} on {data['platform']}",
        f"packages  {packages}",
        "",
    ]
    if data["problem"] is not None:
        return "\n".join([*lines, data["problem"]])
    lines += [
        f"{'gate':<22}{'since':<9}{'ext':<5}{'declared':<10}{'probed':<8}",
    ]
    for gate in data["gates"]:
        declared, probed = ("open" if gate[key] else "closed" for key in ("declared", "probed"))
        mark = "" if declared == probed else "  <-- MISMATCH"
        lines.append(
            f"{gate['name']:<22}{gate['since_release']:<9}"
            f"{gate['since_extension_version']:<5}{declared:<10}{probed:<8}{mark}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
