"""Random sampling: keys, and functions from a key to numbers, one compiled program each.

`common` says how a sampling function is made of a traceable one; then a file per family.
"""
