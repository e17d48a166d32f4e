"""mjax_ext: what primitives, transformations and lowerings are made of, for those who write some.

Tier: **head**. These modules follow the engine and promise nothing from one release to the
next. Numbered generations (`mjax_ext.v1`, ...), which are frozen, come later; until then a
library that builds on this pins `mjax` to a minor release.

- `mjax_ext.core`: the `Primitive` record, types, jaxprs, effects, interpreters.
- `mjax_ext.core.primitives`: the engine's primitives.
- `mjax_ext.interpreters.ad`, `batching`, `mlir`, `partial_eval`, `xla`: rules, by transformation.

Each name has one home. What `mjax` exports (`make_jaxpr`, `typeof`, `errors.MissingRuleError`)
is not repeated here. `examples/multiply_add.py` takes a primitive from no rule to all of them.
"""
