"""Programs, meshes and shardings in treescope, an interactive printer for notebooks.

Source: treescope, `__treescope_repr__`, `repr_lib` and `rendering_parts` of release 0.1.10.
"""

from __future__ import annotations

from typing import Any

from treescope import rendering_parts, repr_lib


def jaxpr_parts(jaxpr: Any, path: str | None, subtree_renderer: Any) -> Any:
    """A program: its size, and unfolded its text."""
    count = len(jaxpr.eqns)
    parts = rendering_parts
    return parts.build_custom_foldable_tree_node(
        label=parts.abbreviation_color(parts.text(
            f"<{type(jaxpr).__name__} {jaxpr.debug_info.func_name}: {count} "
            f"equation{'s' * (count != 1)}>")),
        contents=parts.fold_condition(expanded=parts.indented_children(
            [parts.text(line) for line in str(jaxpr).splitlines()])),
        path=path)


def fields_of(*names: str) -> Any:
    """Renders objects as calls of their class with these attributes."""

    def render(value: Any, path: str | None, subtree_renderer: Any) -> Any:
        return repr_lib.render_object_constructor(
            object_type=type(value), attributes={name: getattr(value, name) for name in names},
            path=path, subtree_renderer=subtree_renderer)

    return render


def text_parts(value: Any, path: str | None, subtree_renderer: Any) -> Any:
    """Renders objects as their texts."""
    return rendering_parts.text(repr(value))


mesh_parts = fields_of("devices", "axis_names")
abstract_mesh_parts = fields_of("axis_sizes", "axis_names")
named_sharding_parts = fields_of("mesh", "spec")
