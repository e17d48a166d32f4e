"""Functions of `mjax` that many programs do without, loaded together on the first use of any.

Aliases mark re-exports for type checkers; `mjax.__all__` lists the names.
"""
# ruff: noqa: I001  (one statement for each module)

from mjax._engine.base.user_contexts import make_user_context as make_user_context
from mjax._engine.control.calls.closure_convert import closure_convert as closure_convert
from mjax._engine.control.custom.custom_gradient import custom_gradient as custom_gradient
from mjax._engine.control.custom.custom_jvp import custom_jvp as custom_jvp
from mjax._engine.control.custom.custom_vjp import custom_vjp as custom_vjp
from mjax._engine.control.remat.policies import checkpoint_policies as checkpoint_policies
from mjax._engine.control.remat.remat import (
    checkpoint as checkpoint,
    remat as remat,
)
from mjax._engine.runtime.arrays.assembling import (
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from mjax._engine.runtime.effects.callbacks import pure_callback as pure_callback
from mjax._engine.transforms.jacobian import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from mjax._numpy.references import (
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    new_ref as new_ref,
)
