"""Runs type checkers over the programs of this folder: `python -m tests.typed`.

`right.py` has to pass; of `wrong.py`, every line that ends in `# wrong` has to fail, and no other.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
FILES = [HERE / "right.py", HERE / "wrong.py"]


def mypy() -> list[tuple[str, int, str]]:
    """Errors of mypy: file, line, text."""
    command = ["mypy", "--strict", "--no-pretty", "--no-error-summary", *map(str, FILES)]
    out = subprocess.run(command, text=True, capture_output=True).stdout
    found = re.findall(r"^(?:.*/)?(\w+\.py):(\d+): error: (.*)$", out, re.MULTILINE)
    return [(name, int(line), text) for name, line, text in found]


def pyright() -> list[tuple[str, int, str]]:
    """Errors of basedpyright, without its warnings."""
    command = ["basedpyright", "--level", "error", "--outputjson", *map(str, FILES)]
    found = json.loads(subprocess.run(command, text=True, capture_output=True).stdout)
    return [(pathlib.Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"])
            for d in found["generalDiagnostics"] if d["severity"] == "error"]


def main() -> int:
    """Prints what is accepted or rejected wrongly; the exit status says whether anything is."""
    wrong = {number for number, line in enumerate(FILES[1].read_text().splitlines(), 1)
             if line.endswith("# wrong")}
    failed = False
    for checker in (mypy, pyright):
        errors = checker()
        rejected = {line for name, line, _ in errors if name == "wrong.py"}
        problems = [f"right.py:{line}: {text}" for name, line, text in errors if name == "right.py"]
        problems += [f"wrong.py:{line}: accepted" for line in sorted(wrong - rejected)]
        problems += [f"wrong.py:{line}: rejected" for line in sorted(rejected - wrong)]
        print(f"{checker.__name__}: {len(wrong)} wrong lines, {len(problems)} problems")
        print("\n".join(problems))
        failed |= bool(problems)
    return failed


if __name__ == "__main__":
    sys.exit(main())
