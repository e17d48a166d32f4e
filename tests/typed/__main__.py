"""Runs type checkers over programs and the public names: `python -m tests.typed`.

`right.py` and the examples have to pass; of `wrong.py`, every line that ends in `# wrong` has to
fail, and no other. The types of public names have to be written down, and known; the argument
`shares` asks for these alone.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = ROOT / "examples" / "downstream" / "src"
EXAMPLES = [*sorted((ROOT / "examples").glob("*.py")), *sorted(SOURCES.glob("*/*.py"))]
FILES = [HERE / "right.py", HERE / "wrong.py", *EXAMPLES]
#: Package -> the least share of its public names whose types are written down and known. It may
#: rise, and never falls.
SHARES = {"mjax": 1.0, "mjax_ext": 1.0}
#: Libraries of the examples that are not installed where types are checked.
ABSENT = ("sklearn", "tqdm")

Error = tuple[str, int, str]


def _run(*command: object) -> str:
    path = os.pathsep.join(map(str, (ROOT, ROOT / "examples", SOURCES)))
    return subprocess.run(
        list(map(str, command)), text=True, stdout=subprocess.PIPE, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "MYPYPATH": str(SOURCES)}).stdout


def _pyright(*arguments: object) -> Any:
    return json.loads(_run("basedpyright", "--outputjson", *arguments))


def mypy() -> list[Error]:
    """Errors of mypy: file, line, text."""
    out = _run("mypy", "--strict", "--no-pretty", "--no-error-summary", *FILES)
    found = re.findall(r"^(.*\.py):(\d+): error: (.*)$", out, re.MULTILINE)
    return [(str(ROOT / name), int(line), text) for name, line, text in found]


def pyright() -> list[Error]:
    """Errors of basedpyright, without its warnings."""
    found = _pyright("--level", "error", *FILES)["generalDiagnostics"]
    return [(d["file"], d["range"]["start"]["line"] + 1, d["message"])
            for d in found if d["severity"] == "error"
            and not d["message"].startswith(tuple(f'Import "{name}' for name in ABSENT))]


def incomplete(package: str) -> list[str]:
    """Public names whose type is not known; also those without a type, if they are too many."""
    report = _pyright("--verifytypes", package, "--ignoreexternal")["typeCompleteness"]
    share, count = report["completenessScore"], sum(report["exportedSymbolCounts"].values())
    print(f"{package}: {share:.2%} of {count} public names have types")
    unknown, untyped = [], []
    for symbol in report["symbols"]:
        reasons = [" ".join(d["message"].split()) for d in symbol["diagnostics"]
                   if not d["message"].startswith(("No docstring", "One or more default"))
                   and ("partially" not in d["message"] or "argument" in d["message"])]
        if not symbol["isTypeKnown"] and reasons:  # others are made of these in part
            (untyped if symbol["isTypeAmbiguous"] else unknown).append(
                f"{symbol['name']}: {'; '.join(reasons)}")
    if share >= SHARES[package]:
        return unknown
    return [f"{package}: at least {SHARES[package]:.2%} should have types", *unknown, *untyped]


def main() -> int:
    """Prints what is accepted or rejected wrongly; the exit status says whether anything is."""
    wrong = {number for number, line in enumerate(FILES[1].read_text().splitlines(), 1)
             if line.endswith("# wrong")}
    failed = False
    for checker in () if sys.argv[1:] == ["shares"] else (mypy, pyright):
        errors = checker()
        rejected = {line for name, line, _ in errors if name == str(FILES[1])}
        problems = [f"{os.path.relpath(name, ROOT)}:{line}: {text}"
                    for name, line, text in errors if name != str(FILES[1])]
        problems += [f"wrong.py:{line}: accepted" for line in sorted(wrong - rejected)]
        problems += [f"wrong.py:{line}: rejected" for line in sorted(rejected - wrong)]
        print(f"{checker.__name__}: {len(wrong)} wrong lines, {len(problems)} problems")
        print("\n".join(problems))
        failed |= bool(problems)
    for package in SHARES:
        problems = incomplete(package)
        print("\n".join(problems))
        failed |= bool(problems)
    return failed


if __name__ == "__main__":
    sys.exit(main())
