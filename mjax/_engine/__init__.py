"""The engine: layers `base`, `ir`, `tracing`, `primitives`, `transforms`, `control`,
`lowering`, `runtime`, `spmd`, each importing only the ones before it.

Private: import it only from mjax's own faces and from `mjax_ext`.
"""
