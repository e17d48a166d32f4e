"""`python -m mjax [--json]`: what is installed and set, what is wrong, and what fixes it.

Standard library only, but for what runs in a process of its own (`facts`): this works where jaxlib
or NumPy does not.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from mjax._tools.variables import mentions, settings, variable_of, variables
from mjaxlib_shim import examination as trial
from mjaxlib_shim.__main__ import GATES, about, heading, table, verdict, wrong_gates
from mjaxlib_shim.examination import Examination, Finding
from mjaxlib_shim.starting import show

_REQUIREMENTS = ("numpy", "ml_dtypes", "opt_einsum", "packaging", "typing_extensions")
_SETTINGS, _DEVICES, _COMPUTES = (
    f"mjax._tools.facts:{name}" for name in ("refused_settings", "devices", "computes"))
_STAGES = (*_REQUIREMENTS, trial.JAXLIB_VERSION, trial.SHIM, GATES, "mjax", _SETTINGS, _DEVICES,
           _COMPUTES)
_OTHERS = (*_REQUIREMENTS, "scipy", "safetensors", "treescope", "jax")
#: The text for a failure of each stage.
_SAID = {"mjax": "mjax cannot be imported", _SETTINGS: "the settings cannot be read",
         _DEVICES: "no device can be used", _COMPUTES: "no program can be run"}
_USAGE = """%(prog)s [-h] [--json]
       %(prog)s trace ..."""
_DESCRIPTION = (
    "Says what is installed and set, what is wrong, and which command fixes it. It works where "
    "mjax cannot be imported, too. The exit status is 0 if mjax can be used here, and else 1.")
_EPILOG = ("Another command, `python -m mjax trace script.py` or `python -m mjax trace -m module`, "
           "runs a program and says what was traced and compiled, where, how long, and why again.")
#: How the names of distributions begin that bring devices to jaxlib.
_PLUGINS = ("jax-cuda", "jax-rocm", "jax-metal", "jax-oneapi", "libtpu")
#: The group of entry points of others.
_PLUGIN_GROUP = "jax_plugins"


def main(arguments: Sequence[str]) -> int:
    """Prints the report; the exit status is 1 if mjax cannot be used here."""
    parser = argparse.ArgumentParser(prog="python -m mjax", usage=_USAGE, description=_DESCRIPTION,
                                     epilog=_EPILOG)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    data = report(trial.examine(_STAGES, (*_REQUIREMENTS, trial.JAXLIB_VERSION),
                                options=trial.interpreter_options()))
    show(json.dumps(data, indent=2, default=str) if options.json else "\n".join(_lines(data)))
    return int(not data["usable"])


def report(examination: Examination) -> dict[str, Any]:
    """Everything that the command prints, as JSON-able data."""
    changed, refused = settings(os.environ)
    refused |= {variable_of(name, os.environ): text
                for name, text in (examination.facts(_SETTINGS) or {}).items()}
    found = variables(os.environ)
    data = {
        "mjax": _version(),
        "mjax_folder": trial.location("mjax"),
        **about(examination, _OTHERS),
        **(examination.facts(_DEVICES) or {"backend": None, "devices": [], "jax_loaded": False}),
        "plugins": _plugins(),
        "settings": changed,
        "variables": [v._asdict() for v in found],
        "caches": _caches(changed),
    }
    findings = [
        *(Finding(text, variables=(name,)) for name, text in refused.items()),
        *trial.findings_of(examination, _REQUIREMENTS, sys.version_info[:2]),
        *wrong_gates(data["gates"]),
        *_of_requirements(),
        *_of_cache(data["caches"]),
        *_of_jax(data),
    ]
    if not any(f.fatal for f in findings):
        findings += [_of_mjax(stage, examination) for stage in _SAID
                     if "error" in examination.outcomes.get(stage, {})]
    findings += [Finding(_misspelt(v.name, v.meant), variables=(v.name,), fatal=False)
                 for v in found if v.misspelt]
    return {**data, **verdict(findings)}


# -- facts --


def _version() -> str:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = runpy.run_path(os.path.join(folder, "_engine", "base", "version.py"))["__version__"]
    return str(found)


def _plugins() -> list[str]:
    """Installed distributions that bring devices, with their versions."""
    found = set()
    for distribution in metadata.distributions():
        with contextlib.suppress(Exception):  # its metadata is damaged
            name = f"{distribution.name.replace('_', '-').lower()} {distribution.version}"
            if name.startswith(_PLUGINS) or any(
                    point.group == _PLUGIN_GROUP for point in distribution.entry_points):
                found.add(name)
    return sorted(found)


def _caches(changed: dict[str, Any]) -> dict[str, Any]:
    """The folder of compiled programs."""
    folder = changed.get("compilation_cache_dir")
    if not folder:
        return {"folder": None}
    there, sizes, readable = os.path.isdir(folder), [], True
    if there:
        try:
            sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.is_file()]
        except OSError:
            readable = False
    exists = os.path.exists(folder)
    return {"folder": folder, "used": changed.get("enable_compilation_cache", True),
            "exists": exists, "entries": len(sizes), "bytes": sum(sizes), "readable": readable,
            "writable": there == exists and _writable(folder if there else _parent(folder))}


def _writable(folder: str) -> bool:
    """Whether a file can be made in a folder; it is gone at once."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _parent(folder: str) -> str:
    """The closest folder above that exists."""
    above = os.path.dirname(os.path.abspath(folder))
    return above if os.path.isdir(above) or above == folder else _parent(above)


# -- what is wrong --


def _of_mjax(stage: str, examination: Examination) -> Finding:
    outcome = examination.outcomes[stage]
    text = f"{_SAID[stage]} ({outcome['error']}: {outcome['message'].strip()})."
    named = [v.name for v in variables(os.environ) if mentions(outcome["message"], v.name)]
    if stage == _DEVICES and not named:
        named = [v for v in ("MJAX_PLATFORMS", "JAX_PLATFORMS", "MJAX_PLATFORM_NAME",
                             "JAX_PLATFORM_NAME") if os.environ.get(v)][:1]
    if named:
        return Finding(text, variables=tuple(named))
    if stage == "mjax":
        return Finding(text, ("mjax",), reinstall=True)
    return Finding(text)


def _of_requirements() -> list[Finding]:
    """Installed packages that are older or newer than mjax asks for."""
    try:
        lines = metadata.requires("mjax") or []
        requirement = importlib.import_module("packaging.requirements").Requirement
    except Exception:  # whatever keeps packaging from being imported is reported elsewhere
        return []
    found = []
    for line in lines:
        try:
            wanted = requirement(line)
            version = trial.version_of(wanted.name)
            fits = version is None or wanted.specifier.contains(version, prereleases=True)
        except ValueError:  # the metadata is damaged
            continue
        if not fits and wanted.name != "jaxlib" and wanted.marker is None:
            found.append(Finding(f"{wanted.name} {version} is installed; mjax asks for "
                                 f"{wanted.name}{wanted.specifier}.",
                                 (f"'{wanted.name}{wanted.specifier}'",), fatal=False))
    return found


def _of_cache(caches: dict[str, Any]) -> list[Finding]:
    folder = caches["folder"]
    if not folder or not caches["used"]:
        return []
    said = {"read from": caches["readable"], "written to": caches["writable"]}
    variable = variable_of("compilation_cache_dir", os.environ)
    return [Finding(f"nothing can be {what} the compilation cache {folder}.",
                    variables=(variable,), fatal=False)
            for what, can in said.items() if not can]


def _of_jax(data: dict[str, Any]) -> list[Finding]:
    if not data["jax_loaded"]:
        return []
    return [Finding("something imported jax together with mjax, which does not need it.",
                    fatal=False)]


def _misspelt(name: str, meant: str | None) -> str:
    return f"nothing reads the environment variable {name}" + (
        f": did you mean {meant}?" if meant else ".")


# -- the table --


def _lines(data: dict[str, Any]) -> list[str]:
    devices = ", ".join(f"{d['platform']}:{d['id']} ({d['kind']})" for d in data["devices"])
    plugins = ", ".join(data["plugins"])
    caches = data["caches"]
    lines = [
        f"mjax      {data['mjax']} in {data['mjax_folder']}",
        *heading(data),
        f"devices   {devices or '-'}",
        f"plugins   {f'{plugins}; mjax does not load them by itself' if plugins else '-'}",
        "caches    " + (f"{caches['folder']}: {caches['entries']} files, {caches['bytes']:,} bytes"
                        if caches["folder"] else "compiled programs are not kept on disk"),
        "settings  " + (", ".join(f"{k}={v!r}" for k, v in data["settings"].items())
                        or "the defaults"),
    ]
    set_ones = [f"{v['name']}={v['value']}\n  {v['meaning']}" for v in data["variables"]]
    return [*lines, *(["", *set_ones] if set_ones else []), *table(data)]
