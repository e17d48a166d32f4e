"""mjax_ext: for authors of primitives, transformations and lowerings.

Tier: **head**. These modules follow the engine and promise nothing from one release to the
next. `mjax_ext.v1` is a numbered generation: it has names of these modules, which are never
removed, renamed or changed in meaning. It is a **candidate** until release 1.0. `docs/policy.md`
tells what a generation promises. `mjax_ext.require("v1")`, at the top of a library, gives it.

- `mjax_ext.core`: the `Primitive` record, types, jaxprs, effects, interpreters and traces.
- `mjax_ext.core.primitives`: the engine's primitives.
- `mjax_ext.interpreters.ad`, `batching`, `mlir`, `partial_eval`, `xla`: rules, by transformation.
- `mjax_ext.linear_util`, `api_util`, `util`: functions of flat values, names of arguments, lists.
- `mjax_ext.source_info_util`, `traceback_util`: where equations and exceptions come from.
- `mjax_ext.backend`, `lowering`, `ifrt_programs`: clients of platforms, contexts of MLIR.
- `mjax_ext.ffi`, `random`, `sharding`: foreign functions, generators of keys, HLO shardings.
- `mjax_ext.check`: finds what is wrong with the rules of a primitive; `docs/checking.md`.
- `mjax_ext.state.discharge`: pure programs for those that read and write references.
- `mjax_ext.require`: the generation that a library builds on, or a `GenerationError`.
- `mjax_ext.explain`: the missing rules and refused effects of a composition, before anything runs.

`python -m mjax_ext audit` and `migrate` tell what a library uses, and rewrite it: `docs/audit.md`.
Each name has one home; `docs/extension_names.md` lists them beside JAX's. Names in `mjax`
(`make_jaxpr`, `typeof`, `errors.MissingRuleError`) are not repeated here.
The authors' guide, `docs/authors/README.md`, goes from an empty record to every transformation,
and on to interpreters, generators, foreign functions, effects and checks. It runs on every jaxlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax_ext import (
        api_util,
        backend,
        check,
        core,
        ffi,
        ifrt_programs,
        interpreters,
        linear_util,
        lowering,
        random,
        sharding,
        source_info_util,
        state,
        traceback_util,
        util,
        v1,
    )
    from mjax_ext._explain import explain
    from mjax_ext._generations.require import (
        GenerationError,
        MixedGenerationsWarning,
        require,
    )

__all__ = [
    "GenerationError", "MixedGenerationsWarning", "explain", "require",
    "api_util", "backend", "check", "core", "ffi", "ifrt_programs", "interpreters", "linear_util",
    "lowering", "random", "sharding", "source_info_util", "state", "traceback_util", "util", "v1",
]

face("mjax_ext", absent="mjax_ext._generations.chain", later={
    "explain": "mjax_ext._explain",
    **dict.fromkeys(("GenerationError", "MixedGenerationsWarning", "require"),
                    "mjax_ext._generations.require"),
})
