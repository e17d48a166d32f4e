"""`python -m mjax_ext migrate PATH --to v1`: rewrites a library for a generation, file by file.

A file is rewritten in two steps. The first gives code that is valid in both: on jax and on the
generation, or on the older generation and the newer one. It is audited, and so is the second, which
has the new form alone. A file is written if both are sound; else it stays as it was.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mjax._engine.base.util import counted
from mjax_ext._arguments import parser_of
from mjax_ext._audit.command import audit_source
from mjax_ext._audit.files import files
from mjax_ext._audit.surface import SURFACE, Surface
from mjax_ext._generations.chain import CHAIN
from mjax_ext._migrate.plan import Plan, Problem, make_plan, plan_unused
from mjax_ext._migrate.targets import Targets, ToGeneration, ToNext
from mjaxlib_shim.starting import show

try:
    from mjax_ext._migrate.rewrite import rewrite
except ImportError as _error:
    if (_error.name or "").split(".", 1)[0] != "libcst":
        raise
    rewrite = None  # type: ignore[assignment]


class Result(NamedTuple):
    """The outcome for a file.

    Attributes:
      file: the path.
      written: whether it was rewritten.
      problems: why it was not, line by line.
      imports_jax: whether a rewritten file imports jax for other names.
    """

    file: Path
    written: bool
    problems: list[Problem]
    imports_jax: bool = False


def migrate(path: str, to: str, surface: Surface = SURFACE,
            rules: Sequence[dict[str, Any]] | None = None) -> Iterator[Result]:
    """Rewrites the files of a path for a generation; gives the files that have something to do.

    Args:
      path: a file or a folder.
      to: the generation.
      surface: the generations.
      rules: those of the changes that lead to it; None: those of this release.

    Raises:
      FileNotFoundError: there is no such path, or it is a notebook.
    """
    steps = _steps(to, surface, rules)
    for file in files(path):
        try:
            before = file.read_bytes()
            after, problems = _rewritten(before, steps)
        except SyntaxError as error:
            yield Result(file, False, [Problem(error.lineno or 1, f"does not parse: {error.msg}")])
            continue
        except OSError as error:
            yield Result(file, False, [Problem(1, f"cannot be read: {error.strerror}")])
            continue
        if problems or after != before:
            problems = problems or _write(file, after)
            yield Result(file, not problems, problems, not problems and _imports_jax(after))


def _write(file: Path, source: bytes) -> list[Problem]:
    try:
        file.write_bytes(source)
    except OSError as error:
        return [Problem(1, f"cannot be written: {error.strerror}")]
    return []


def _steps(to: str, surface: Surface, rules: Sequence[dict[str, Any]] | None) -> list[Targets]:
    """To the first generation from jax and the head; to another one from the one before it."""
    place = surface.generations.index(to)
    if not place:
        return [ToGeneration(to, surface.until(to))]
    if rules is None:
        rules = [change.codemod() for change in CHAIN.all_changes() if change.since == to]
    return [ToNext(surface.generations[place - 1], to, surface, rules)]


def _rewritten(source: bytes, steps: list[Targets]) -> tuple[bytes, list[Problem]]:
    for targets in steps:
        both, problems = _written(source, targets.both(), targets.keeps_imports)
        after, others = _written(source, targets, False)
        problems += others
        if not problems and both == after == source:
            continue
        problems = problems or _unsound(source, both, targets) + _unsound(source, after, targets)
        problems = problems or [Problem(f.line, f"{f.name} is left") for f in audit_source(
            after, "", targets.surface) if targets.touches(f)]
        if problems:
            return source, sorted(set(problems))
        source = after
    return source, []


def _imports_jax(source: bytes) -> bool:
    names = [name for node in ast.walk(ast.parse(source)) for name in (
        [alias.name for alias in node.names] if isinstance(node, ast.Import) else
        [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])]
    return any(name.partition(".")[0] == "jax" for name in names)


def _written(source: bytes, targets: Targets, keep_imports: bool) -> tuple[bytes, list[Problem]]:
    plan: Plan = make_plan(source, targets, keep_imports)
    if plan.problems or not plan:
        return source, sorted(set(plan.problems))
    after = rewrite(source, plan)
    if not plan.problems and not keep_imports and (unused := plan_unused(source, after)):
        after = rewrite(after, unused)
    return after, sorted(set(plan.problems))


def _unsound(before: bytes, after: bytes, targets: Targets) -> list[Problem]:
    """Findings of the audit in the new code that the old code did not have."""
    known = {finding.name for finding in audit_source(before, "", targets.surface)
             if finding.fails}
    try:
        found = audit_source(after, "", targets.surface)
    except SyntaxError as error:
        return [Problem(error.lineno or 1, f"the new code would not parse: {error.msg}")]
    return [Problem(finding.line, f"the new code would use {finding.name}: {finding.note}")
            for finding in found if finding.fails and finding.name not in known]


def main(arguments: list[str]) -> int:
    """The command; gives its exit status."""
    parser = parser_of(
        "migrate", "Rewrites uses of jax's extension modules and of the head for v1, and uses of a "
        "generation for the next one. Each file is rewritten as a whole or not at all.",
        "Exit status: 1 if a file was left as it was; 2 for bad arguments; else 0.")
    parser.add_argument("path", metavar="PATH", help="a file or a folder")
    parser.add_argument("--to", required=True, choices=SURFACE.generations,
                        help="the generation")
    options = parser.parse_args(arguments)
    if rewrite is None:
        print("python -m mjax_ext migrate needs libcst: pip install 'mjax[migrate]'",
              file=sys.stderr)
        return 2
    try:
        if not Path(options.path).exists():
            raise FileNotFoundError(f"there is no {options.path}")
        results = list(migrate(options.path, options.to))
    except FileNotFoundError as error:
        print(f"python -m mjax_ext migrate: {error}", file=sys.stderr)
        return 2
    show("\n".join(_text(results, options.to)))
    return int(any(result.problems for result in results))


def _text(results: list[Result], to: str) -> Iterator[str]:
    for result in results:
        if result.written:
            yield f"{result.file}: rewritten"
        for problem in result.problems:
            yield f"{result.file}:{problem.line}: {problem.why}"
    written = sum(result.written for result in results)
    if results:
        yield (f"Rewritten for {to}: {written} of {counted(len(results), 'file')}. "
               f"As they were: {len(results) - written}.")
        if left := sum(result.imports_jax for result in results):
            yield (f"Rewritten files that import jax for other names: {left}. Change `jax` to "
                   "`mjax` there, or run the library under `python -m mjax.alias`.")
    else:
        yield f"Nothing has to be rewritten for {to}."
