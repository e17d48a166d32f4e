"""`python -m mjax`: the doctor, and `trace`."""

from __future__ import annotations

import argparse
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
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    with trace_report() as report:
        try:
            runpy.run_path(options.script, run_name="__main__")
        except SystemExit as end:
            status = end.code
        else:
            status = 0
    for form in ("json", "perfetto"):
        if path := getattr(options, form):
            report.save(path, form)
    print(report, file=sys.stderr)
    if status is None or isinstance(status, int):
        return status or 0
    print(status, file=sys.stderr)
    return 1
