"""The engine, in layers that import only earlier ones.

They are `base`, `ir`, `tracing`, `primitives`, `transforms`, `control`, `linalg`, `lowering`,
`runtime`, `spmd`.

Private: import it only from mjax's own faces and from `mjax_ext`.
"""
