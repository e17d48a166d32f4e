"""`python -m mjax`: the doctor, and `trace`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence

from mjax._tools import doctor
from mjax._tools.trace_report import trace_report


def main(arguments: Sequence[str]) -> int:
    """Runs a command; without one the doctor."""
    if arguments[:1] == ["trace"]:
        return _trace(arguments[1:])
    return doctor.main(arguments)


def _trace(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m mjax trace", description="Runs a program and reports its traces, lowerings "
        "and compilations on stderr, by line, with the reasons for those that happened again.")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--perfetto", metavar="FILE", help="write it for Perfetto")
    parser.add_argument("-m", dest="module", action="store_true",
                        help="the program is the name of a module, as of `python -m`")
    parser.add_argument("program", help="a script, or with -m a module")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # Python 3.11 would ask for them
    options = parser.parse_args(arguments)
    program = options.program
    if options.module and not _runs(program):
        parser.error(f"there is no module {program!r} that can be run; give its name as "
                     "`python -m` takes it")
    if not options.module and not os.path.exists(program):
        parser.error(f"there is no file {program!r}; give the path of a Python program, or -m and "
                     "the name of a module")
    paths = {form: path for form in ("json", "perfetto") if (path := getattr(options, form))}
    for form, path in paths.items():  # before the program runs, which may take hours
        if not os.path.isdir(folder := os.path.dirname(os.path.abspath(path))):
            parser.error(f"--{form} {path}: there is no folder {folder!r}")
    sys.argv = [program, *options.arguments]
    if not (options.module or sys.flags.safe_path):
        sys.path[0] = os.path.dirname(os.path.abspath(program))
    status: object = 0
    try:
        with trace_report() as report:
            if options.module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        status = end.code
    finally:  # programs that fail, or are interrupted, have a report too
        print(report, file=sys.stderr)
        for form, path in paths.items():
            report.save(path, form)
    if status is None or isinstance(status, int):
        return status or 0
    print(status, file=sys.stderr)
    return 1


def _runs(name: str) -> bool:
    """Whether there is such a module; of a package, whether it has a `__main__`."""
    try:
        spec = importlib.util.find_spec(name)
        return spec is not None and (spec.submodule_search_locations is None
                                     or importlib.util.find_spec(f"{name}.__main__") is not None)
    except (ImportError, ValueError):  # of a package above, or a name such as ""
        return False
