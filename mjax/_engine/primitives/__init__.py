"""First-order primitives: a file per family, with all rules of a primitive side by side.

Reading order: `emit`, `linear`, `shapes`, `tangents`, `elementwise`, then the others.
"""
