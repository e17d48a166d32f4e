"""NumPy-style indexing, in steps.

`parse` parses indices, `plan` turns them into operands of gather and scatter, `read` reads elements
(and clamps or fills those out of bounds), `update` writes them. `eager` compiles each kind of index
once, for all integers.
"""
