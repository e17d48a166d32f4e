"""Random sampling: keys, and functions from a key to numbers, one compiled program each.

`common` makes sampling functions of traceable ones; each family has a file.
"""
