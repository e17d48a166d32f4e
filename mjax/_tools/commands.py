"""`python -m mjax`: the doctor, and `trace`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mjax._tools import doctor
from mjax._tools.programs import add_program, check_program, run_program
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
    add_program(parser)
    options = parser.parse_args(arguments)
    check_program(parser, options)
    paths = {form: path for form in ("json", "perfetto") if (path := getattr(options, form))}
    for form, path in paths.items():  # before the program runs, which may take hours
        if not os.path.isdir(folder := os.path.dirname(os.path.abspath(path))):
            parser.error(f"--{form} {path}: there is no folder {folder!r}")
    status: object = 0
    try:
        with trace_report() as report:
            run_program(options)
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
