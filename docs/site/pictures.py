"""Pictures that are made when the site is built, as SVG inside of the page.

A page asks for one by a line `<!-- site: NAME -->`, which does not show in the repository.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P


def _figure(content: str, caption: str) -> str:
    """HTML in one block: Markdown ends one at an empty line."""
    lines = "\n".join(line for line in content.splitlines() if line.strip())
    return (f'<figure class="picture"><div>{lines}</div>\n'
            f"<figcaption>{caption}</figcaption></figure>\n")


def _mesh() -> Any:
    return mjax.make_mesh((4, 2), ("data", "model"))


def mesh() -> str:
    """Eight devices in a grid of two named axes."""
    return _figure(_mesh()._repr_html_(), "Eight devices as a mesh of 4 by 2.")


def shardings() -> str:
    """One array, cut in three ways."""
    specs = {"P('data', 'model')": P("data", "model"), "P('data')": P("data"),
             "P(None, 'model')": P(None, "model")}
    parts = []
    for text, spec in specs.items():
        x = mjax.device_put(np.zeros((8, 4), "float32"), NamedSharding(_mesh(), spec))
        picture = x.sharding._repr_html_()
        svg = picture[picture.index("<svg"):picture.rindex("</svg>") + 6]
        parts.append(f"<div><code>{text}</code><br>{svg}</div>")
    return _figure("".join(parts), "A matrix under three shardings. Devices that share a "
                   "cell hold copies of it.")


def program() -> str:
    """The graph of a small program."""
    def layer(x: Any, w: Any, b: Any) -> Any:
        return jnp.tanh(x @ w + b)

    drawing = mjax.debug.draw(layer, jnp.ones((8, 4)), jnp.ones((4, 2)), jnp.ones(2))
    return _figure(drawing.svg, "A layer: operations in boxes, types of values between them.")


def gradient() -> str:
    """The graph of a derivative."""
    drawing = mjax.debug.draw(mjax.grad(lambda x: jnp.sin(x) ** 2), 1.0)
    return _figure(drawing.svg, "The derivative of sin(x)², as it is compiled.")


PARTS: dict[str, Callable[..., str]] = {
    "mesh": mesh, "shardings": shardings, "program": program, "gradient": gradient}
