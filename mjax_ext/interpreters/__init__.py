"""Rules by transformation: `ad`, `batching`, `mlir`, `partial_eval`, `xla`.

There is no `pxla`: what JAX keeps there (mesh executables, argument sharding) is run-time
machinery that has no counterpart here, and its meshes and shardings are `mjax.sharding`'s.
"""
