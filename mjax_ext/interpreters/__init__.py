"""Rules by transformation: `ad`, `batching`, `mlir`, `partial_eval`, `xla`.

mjax does not have `pxla`. JAX's contains run-time machinery without a counterpart here (mesh
executables, argument sharding), and meshes and shardings, which are in `mjax.sharding`.
"""
