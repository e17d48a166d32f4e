"""Small optimizers for examples."""

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

__getattr__, __dir__ = face("mjax.example_libraries.optimizers")
