"""The names of JAX that libraries use, most wanted first, and which of them mjax has.

    python -m tests.api_demand            # all of them
    python -m tests.api_demand --absent   # those that mjax lacks

`data/api_demand.txt` counts, per name, how many of 27 well-known libraries use it. A name in
`data/api_absent.txt` is not there yet, or stays out of scope, for the reason beside it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data"


def demand() -> dict[str, int]:
    """Name without the library's -> number of libraries that use it, most wanted first."""
    rows = [line.split() for line in (DATA / "api_demand.txt").read_text().splitlines()]
    return {name: int(count) for count, name in rows}


def absent() -> dict[str, str]:
    """Name that mjax lacks -> why."""
    rows = [line.split(maxsplit=1) for line in (DATA / "api_absent.txt").read_text().splitlines()]
    return {name: reason for name, reason in rows}


def is_present(name: str) -> bool:
    """Whether the name can be reached from `mjax`, through attributes and submodules."""
    thing, path = importlib.import_module("mjax"), "mjax"
    for part in name.split("."):
        path = f"{path}.{part}"
        try:
            thing = getattr(thing, part)
        except AttributeError:
            try:
                thing = importlib.import_module(path)
            except ImportError:
                return False
    return True


def main(arguments: list[str]) -> None:
    wanted = demand()
    here = {name: is_present(name) for name in wanted}
    for name, count in wanted.items():
        if not (here[name] and "--absent" in arguments):
            print(f"{count:2}  {'present' if here[name] else 'absent '}  {name}")
    print(f"{sum(here.values())} of {len(here)} names are present")


if __name__ == "__main__":
    main(sys.argv[1:])
