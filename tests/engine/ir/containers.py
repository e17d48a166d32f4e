"""Classes that are containers, registered in each of the ways that there are."""

import dataclasses
from typing import Any

from mjax.tree_util import (
    GetAttrKey,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)


class Plain:
    """A container without keys; `tag` is structure."""

    def __init__(self, child, tag):
        self.child, self.tag = child, tag


register_pytree_node(Plain, lambda p: ((p.child,), p.tag), lambda tag, kids: Plain(kids[0], tag))


class Keyed:
    def __init__(self, a, b):
        self.a, self.b = a, b


register_pytree_with_keys(Keyed, lambda k: (((GetAttrKey("a"), k.a), ("second", k.b)), None),
                          lambda _, kids: Keyed(*kids))


@register_pytree_node_class
class Many:
    def __init__(self, *values):
        self.values = values

    def tree_flatten(self):
        return self.values, None

    @classmethod
    def tree_unflatten(cls, aux, kids):
        return cls(*kids)


@register_pytree_with_keys_class
class Named:
    def __init__(self, *values):
        self.values = values

    def tree_flatten_with_keys(self):
        return [(f"v{i}", v) for i, v in enumerate(self.values)], None

    @classmethod
    def tree_unflatten(cls, aux, kids):
        return cls(*kids)


@register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@register_static
class Static:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __hash__(self):
        return hash(self.value)
