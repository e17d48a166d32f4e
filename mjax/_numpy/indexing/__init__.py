"""NumPy-style indexing: `parse` understands indices, `read` takes elements, `update` writes them.

`eager` compiles each kind of index once, whatever its integers are.
"""
