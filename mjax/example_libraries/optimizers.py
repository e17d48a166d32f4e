"""Small optimizers for examples.

An optimizer is a triple of functions. `init_fun(params)` gives the state, `update_fun(i, grads,
state)` the next state after the update with the number `i`, `get_params(state)` the parameters.

Example:
  >>> from mjax.example_libraries import optimizers
  >>> init_fun, update_fun, get_params = optimizers.adam(0.1)
  >>> @mjax.jit
  ... def step(i, state):
  ...     return update_fun(i, mjax.grad(lambda x: (x - 3) ** 2)(get_params(state)), state)
  >>> state = init_fun(0.0)
  >>> for i in range(200):
  ...     state = step(i, state)
  >>> bool(abs(get_params(state) - 3) < 0.1)
  True
"""

from mjax._engine.base.faces import face
from mjax._library.optimizers import (
    Array,
    InitFn,
    JoinPoint,
    Optimizer,
    OptimizerState,
    Params,
    ParamsFn,
    State,
    UpdateFn,
    Updates,
    adagrad,
    adam,
    adamax,
    clip_grads,
    l2_norm,
    momentum,
    nesterov,
    optimizer,
    pack_optimizer_state,
    rmsprop,
    rmsprop_momentum,
    sgd,
    sm3,
    unpack_optimizer_state,
)
from mjax._library.schedules import (
    Schedule,
    Step,
    constant,
    exponential_decay,
    inverse_time_decay,
    make_schedule,
    piecewise_constant,
    polynomial_decay,
)

__all__ = [
    "Array", "InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn",
    "Schedule", "State", "Step", "UpdateFn", "Updates", "adagrad", "adam", "adamax",
    "clip_grads", "constant", "exponential_decay", "inverse_time_decay", "l2_norm",
    "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state",
    "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state",
]

face("mjax.example_libraries.optimizers")
