"""Rules and transformations, by transformation: `ad`, `batching`, `mlir`, `partial_eval`, `pxla`,
`xla`.

`docs/extension_names.md` lists the names of JAX's modules, with their homes and meanings here.
"""
