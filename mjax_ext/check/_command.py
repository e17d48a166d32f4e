"""`python -m mjax_ext check module:primitive --examples module:function`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from mjax._engine.tracing.primitive import Primitive
from mjax_ext._arguments import called, named, parser_of
from mjax_ext._operands import examples_of
from mjax_ext.check._check import check_primitive
from mjax_ext.check._report import Report
from mjax_ext.core._examples import declare
from mjaxlib_shim.starting import show

#: How many devices there are, if the environment does not say.
_FLAG = "--xla_force_host_platform_device_count"


def main(arguments: Sequence[str]) -> int:
    """Prints a report for each application.

    Returns:
      0 without findings, 1 with some or with declarations that no example bears out, 2 if there
      is nothing to check.
    """
    parser = parser_of(
        "check", "Checks the rules of a primitive against each other and against independent "
        "computations.", "Exit status: 0 without findings, 1 with some, 2 if there is nothing to "
        "check.")
    parser.add_argument("primitive", metavar="MODULE:PRIMITIVE")
    parser.add_argument("--examples", metavar="MODULE:FUNCTION", help=(
        "a function without arguments that returns the operands, a tuple, and the params, a dict, "
        "of one application; by default the examples of the primitive's schema"))
    options = parser.parse_args(arguments)
    if _FLAG not in os.environ.get("XLA_FLAGS", ""):  # read when the first array is made
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}=2".strip()
    primitive = named(parser, options.primitive)
    if not isinstance(primitive, Primitive):
        parser.error(f"{options.primitive} is {primitive!r}, which is not a primitive.")
    reports = [check_primitive(primitive, *examples_of(operands), **params)
               for operands, params in _applications(parser, primitive, options.examples)]
    texts = [*map(str, reports), *_untrue(primitive, reports)]
    show("\n\n".join(texts))
    return int(len(texts) > len(reports) or not all(report.ok for report in reports))


def _untrue(primitive: Primitive, reports: Sequence[Report]) -> list[str]:
    """What the primitive declares to deviate, and no report has found to."""
    return [f"primitive {primitive.name!r} declares that {rule!r} deviates ({why}), which no "
            "example shows: remove the declaration, or add an example."
            for rule, why in primitive.exceptions.items()
            if any(rule in report.checked for report in reports)
            and not any(rule in report.declared for report in reports)]


def _applications(parser: argparse.ArgumentParser, primitive: Primitive, name: str | None
                  ) -> list[tuple[Sequence[Any], dict[str, Any]]]:
    """Operands and params: those that the function gives, or those of the schema."""
    if name is not None:
        found = called(parser, name)
        if not (isinstance(found, tuple) and len(found) == 2
                and isinstance(found[0], (tuple, list)) and isinstance(found[1], dict)):
            parser.error(f"{name} must return the operands and the params of an application, a "
                         f"tuple and a dict: ((x, y), {{'axis': 0}}). It returned {found!r}.")
        return [found]
    if primitive.own:  # whatever module named it
        declare([primitive])
    schema = getattr(primitive, "schema", None)
    known = [] if schema is None else schema.applications()
    if not known:
        parser.error(f"there are no examples for {primitive.name!r}: its schema has none. Name a "
                     "function that returns operands and params, by --examples module:function.")
    return [(operands, dict(params)) for operands, params in known]
