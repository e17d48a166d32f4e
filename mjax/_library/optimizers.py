"""Small optimizers for examples: gradient descent with and without momentum, Adam, and others.

An optimizer is three functions. They create its state from parameters, update the state by a
gradient, and extract the parameters.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.faces import rehome
from mjax._engine.ir.pytree import tree_flatten, tree_leaves, tree_map
from mjax._engine.ir.tree_registration import register_pytree_node
from mjax._library.schedules import Step, make_schedule
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.arithmetic import maximum, minimum, sqrt, square
from mjax._numpy.core import dtype_of, shape_of
from mjax._numpy.creation import asarray, zeros
from mjax._numpy.like import zeros_like
from mjax._numpy.products import vdot
from mjax._numpy.reductions import max as greatest
from mjax._numpy.selecting import where
from mjax._numpy.shapes import atleast_1d

Array = Any
#: A pytree of arrays.
Params = Any
#: An optimizer's state for one array.
State = Any
#: Gradients, a tree like the parameters.
Updates = Any


class OptimizerState(NamedTuple):
    """The state of an optimizer, a pytree of arrays.

    Attributes:
      packed_state: a list of arrays for each array of the parameters.
      tree_def: the structure of the parameters.
      subtree_defs: the structures of the state of each array.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> state = optimizers.momentum(0.1, 0.9).init_fn({"w": jnp.ones(2)})
      >>> len(state.packed_state[0])
      2
      >>> mjax.tree.map(jnp.shape, state).packed_state
      ([(2,), (2,)],)
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(OptimizerState, lambda s: ((s.packed_state,), s[1:]),
                     lambda trees, packed: OptimizerState(packed[0], *trees))

#: The functions of an optimizer: parameters -> state; a step; state -> parameters.
InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]


class Optimizer(NamedTuple):
    """The three functions of an optimizer.

    Attributes:
      init_fn: from parameters to a state.
      update_fn: from the index of the update, gradients and a state to the next state.
      params_fn: from a state to parameters.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> opt = optimizers.sgd(0.5)
      >>> state = opt.update_fn(0, jnp.array([2.0]), opt.init_fn(jnp.array([3.0])))
      >>> opt.params_fn(state)
      Array([2.], dtype=float32)
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


for _class in (OptimizerState, Optimizer):
    rehome(_class, "mjax.example_libraries.optimizers")

_FRAGMENTS = {
    "step_size": """\
step_size: a positive number, or a schedule: a function from the index of the update to
    a number.""",
    "returns": """\
Returns:
  `(init_fun, update_fun, get_params)`; see `Optimizer`.

Raises:
  TypeError: `step_size` is a list, a tuple, a dict, a string, or an array that is not a scalar.
    `update_fun` raises it if gradients do not have the structure of the parameters, or do not
    broadcast with them.
  AttributeError: `update_fun` or `get_params` is given something that is not a state.""",
}


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Decorator that turns an optimizer of single arrays into an optimizer of pytrees.

    Args:
      opt_maker: returns three functions of one array: `init(x)` gives the state, any pytree;
        `update(i, g, state)` the next state, of the same structure; `get_params(state)` the array.

    Returns:
      A function that returns an `Optimizer`.

    Raises:
      TypeError: the update is given gradients of another structure than that of the parameters,
        or changes the structure of a state.
      ValueError: `opt_maker` returns fewer or more than three functions.
      AttributeError: the update, or the last function, is given something that is not a state.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> @optimizers.optimizer
      ... def signs(step_size):
      ...   return (lambda x: x, lambda i, g, x: x - step_size * jnp.sign(g), lambda x: x)
      >>> init, update, params = signs(0.5)
      >>> params(update(0, {"w": jnp.array([3.0])}, init({"w": jnp.array([1.0])})))
      {'w': Array([0.5], dtype=float32)}
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        @functools.wraps(init)
        def init_tree(x0_tree: Params) -> OptimizerState:
            leaves, tree = tree_flatten(x0_tree)
            return _packed(tree, [init(x) for x in leaves])

        @functools.wraps(update)
        def update_tree(i: Step, grad_tree: Updates, opt_state: OptimizerState) -> OptimizerState:
            grads, tree = tree_flatten(grad_tree)
            _check_same("the gradients", tree, "the parameters", opt_state.tree_def)
            states = [update(i, g, s) for g, s in zip(grads, _states(opt_state), strict=True)]
            new = _packed(tree, states)
            for after, before in zip(new.subtree_defs, opt_state.subtree_defs, strict=True):
                _check_same("the state after an update", after, "the one before", before)
            return new

        @functools.wraps(get_params)
        def params_of_tree(opt_state: OptimizerState) -> Params:
            return opt_state.tree_def.unflatten([get_params(s) for s in _states(opt_state)])

        return Optimizer(init_tree, update_tree, params_of_tree)

    return make


def _packed(tree: Any, states: Sequence[Any]) -> OptimizerState:
    flat = [tree_flatten(s) for s in states]
    return OptimizerState(tuple([leaves for leaves, _ in flat]), tree,
                          tuple([structure for _, structure in flat]))


def _states(state: OptimizerState) -> list[Any]:
    return [structure.unflatten(leaves) for structure, leaves in zip(
        state.subtree_defs, state.packed_state, strict=True)]


def _check_same(what: str, tree: Any, other: str, expected: Any) -> None:
    if tree != expected:
        raise LazyTypeError(lambda: (
            f"optimizer: {what} must have the tree structure of {other}, {expected}, but the "
            f"structure is {tree}."))


def _first(state: Any) -> Any:
    """The parameters: the first entry of these states."""
    return state[0]


# ---- optimizers ------------------------------------------------------------------------


@optimizer
@documented(**_FRAGMENTS)
def sgd(step_size: Any) -> Any:
    """Gradient descent.

    Args:
      [step_size]

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.sgd(0.5)
      >>> params(update(0, jnp.array([2.0]), init(jnp.array([3.0]))))
      Array([2.], dtype=float32)
    """
    size = make_schedule(step_size)
    return lambda x0: x0, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
@documented(**_FRAGMENTS)
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum.

    Args:
      [step_size]
      mass: the decay factor of the velocity.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.momentum(0.5, mass=0.5)
      >>> state = update(0, jnp.array([2.0]), init(jnp.array([3.0])))
      >>> params(update(1, jnp.array([2.0]), state))
      Array([0.5], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return lambda x0: (x0, zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum.

    Args:
      [step_size]
      mass: the decay factor of the velocity.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.nesterov(0.5, mass=0.5)
      >>> params(update(0, jnp.array([2.0]), init(jnp.array([3.0]))))
      Array([1.5], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return lambda x0: (x0, zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad: divides steps by the root of the sum of squared gradients.

    Args:
      [step_size]
      momentum: the decay factor of the velocity.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.adagrad(0.5, momentum=0.0)
      >>> params(update(0, jnp.array([2.0, 8.0]), init(jnp.array([3.0, 3.0]))))
      Array([2.5, 2.5], dtype=float32)

    Source: J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online learning and
    stochastic optimization", 2011.
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, squares, velocity = state
        squares = squares + square(g)
        scale = where(squares > 0, 1.0 / sqrt(squares), 0.0)
        velocity = (1.0 - momentum) * (g * scale) + momentum * velocity
        return x - size(i) * velocity, squares, velocity

    return lambda x0: (x0, zeros_like(x0), zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: divides steps by the root of a running mean of squared gradients.

    Args:
      [step_size]
      gamma: the decay factor of the mean.
      eps: added to the mean.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.rmsprop(0.5, gamma=0.75)
      >>> params(update(0, jnp.array([2.0, 8.0]), init(jnp.array([3.0, 3.0]))))
      Array([2., 2.], dtype=float32)

    Source: T. Tieleman and G. Hinton, "Lecture 6.5: RMSProp", 2012.
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, squares = state
        squares = squares * gamma + square(g) * (1.0 - gamma)
        return x - size(i) * g / sqrt(squares + eps), squares

    return lambda x0: (x0, zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
                     ) -> Any:
    """RMSProp with momentum.

    Args:
      [step_size]
      gamma: the decay factor of the mean of squared gradients.
      eps: added to the mean.
      momentum: the decay factor of the velocity.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.rmsprop_momentum(0.5, gamma=0.75)
      >>> params(update(0, jnp.array([2.0, 8.0]), init(jnp.array([3.0, 3.0]))))
      Array([2., 2.], dtype=float32)
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, squares, velocity = state
        squares = squares * gamma + square(g) * (1.0 - gamma)
        velocity = momentum * velocity + size(i) * g / sqrt(squares + eps)
        return x - velocity, squares, velocity

    return lambda x0: (x0, zeros_like(x0), zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam: divides a running mean of gradients by the root of a running mean of their squares.

    Args:
      [step_size]
      b1, b2: the decay factors of the two means.
      eps: added to the root.

    [returns]

    Source: D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2014.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.adam(0.1)
      >>> state = init(jnp.array([3.0]))
      >>> for i in range(200):
      ...   state = update(i, 2 * params(state), state)
      >>> bool(abs(params(state)[0]) < 0.1)
      True
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * square(g) + b2 * squares
        # Corrects the bias of means that start at zero.
        whole = mean / (1 - asarray(b1, dtype_of(mean)) ** (i + 1))
        whole_squares = squares / (1 - asarray(b2, dtype_of(mean)) ** (i + 1))
        return x - size(i) * whole / (sqrt(whole_squares) + eps), mean, squares

    return lambda x0: (x0, zeros_like(x0), zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adamax: divides a running mean of gradients by a decaying maximum of their magnitudes.

    Args:
      [step_size]
      b1, b2: the decay factors of the mean and of the maximum.
      eps: added to the maximum.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.adamax(0.5)
      >>> params(update(0, jnp.array([2.0, 8.0]), init(jnp.array([3.0, 3.0])))).round(3)
      Array([2.5, 2.5], dtype=float32)

    Source: D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2014, section 7.
    """
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = maximum(b2 * largest, absolute(g))
        step = size(i) / (1 - asarray(b1, dtype_of(mean)) ** (i + 1))
        return x - step * mean / (largest + eps), mean, largest

    return lambda x0: (x0, zeros_like(x0), zeros_like(x0)), update, _first


@optimizer
@documented(**_FRAGMENTS)
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3: Adagrad with one accumulator per slice along each axis.

    Args:
      [step_size]
      momentum: the decay factor of the velocity.

    [returns]

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> init, update, params = optimizers.sm3(0.5, momentum=0.0)
      >>> params(update(0, jnp.array([2.0, 8.0]), init(jnp.array([3.0, 3.0]))))
      Array([2.5, 2.5], dtype=float32)

    Source: R. Anil, V. Gupta, T. Koren and Y. Singer, "Memory-efficient adaptive optimization",
    2019.
    """
    size = make_schedule(step_size)

    def init(x0: Array) -> State:
        x = atleast_1d(x0)
        return x, zeros_like(x), [zeros(n, dtype_of(x)) for n in shape_of(x)], shape_of(x0)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity, rows, shape = state
        rank = len(rows)
        along = [v.reshape([-1 if a == axis else 1 for a in range(rank)])
                 for axis, v in enumerate(rows)]
        squares = functools.reduce(minimum, along) + square(g)
        scale = where(squares > 0, 1.0 / sqrt(squares), 0)
        velocity = (1.0 - momentum) * (g * scale) + momentum * velocity
        rows = [greatest(squares, tuple([a for a in range(rank) if a != axis]))
                for axis in range(rank)]
        return x - size(i) * velocity, velocity, rows, shape

    return init, update, lambda state: state[0].reshape(state[3])


# ---- gradients -------------------------------------------------------------------------


def l2_norm(tree: Params) -> Any:
    """The Euclidean norm of all elements of a tree.

    Args:
      tree: a pytree of arrays.

    Returns:
      A scalar array.

    Raises:
      TypeError: a leaf is not an array or a number.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.l2_norm({"a": jnp.array([3.0]), "b": jnp.array(4.0)})
      Array(5., dtype=float32)
    """
    return sqrt(functools.reduce(operator.add, [vdot(x, x) for x in tree_leaves(tree)], 0))


def clip_grads(grad_tree: Updates, max_norm: Any) -> Updates:
    """Clips gradients to a maximum norm.

    Args:
      grad_tree: a pytree of arrays.
      max_norm: the maximum Euclidean norm of all elements together.

    Returns:
      A tree like `grad_tree`.

    Raises:
      TypeError: a leaf of `grad_tree`, or `max_norm`, is not an array or a number.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.clip_grads(jnp.array([6.0, 8.0]), 5.0)
      Array([3., 4.], dtype=float32)
    """
    size = l2_norm(grad_tree)
    return tree_map(lambda g: where(size < max_norm, g, g * (max_norm / size)), grad_tree)


# ---- states as trees -------------------------------------------------------------------


class JoinPoint:
    """Marks, in a tree of parameters, the state of one array.

    Attributes:
      subtree: the state.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> point = optimizers.unpack_optimizer_state(optimizers.sgd(0.5).init_fn(jnp.ones(2)))
      >>> point.subtree
      Array([1., 1.], dtype=float32)
    """

    __module__ = "mjax.example_libraries.optimizers"

    def __init__(self, subtree: Any):
        self.subtree = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Converts a state into a tree like the parameters, for saving.

    Args:
      opt_state: the state of an optimizer.

    Returns:
      The tree of the parameters with a `JoinPoint` in place of each array.

    Raises:
      AttributeError: `opt_state` is not an `OptimizerState`.
      ValueError: the parts of `opt_state` do not belong together.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> state = optimizers.sgd(0.5).init_fn({"w": jnp.ones(2)})
      >>> optimizers.unpack_optimizer_state(state)["w"].subtree
      Array([1., 1.], dtype=float32)
    """
    return opt_state.tree_def.unflatten(list(map(JoinPoint, _states(opt_state))))


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`.

    Args:
      marked_pytree: a tree with a `JoinPoint` in the place of each array of the parameters.

    Returns:
      The state of the optimizer.

    Raises:
      TypeError: a leaf is not a `JoinPoint`.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> opt = optimizers.sgd(0.5)
      >>> tree = optimizers.unpack_optimizer_state(opt.init_fn({"w": jnp.ones(2)}))
      >>> opt.params_fn(optimizers.pack_optimizer_state(tree))
      {'w': Array([1., 1.], dtype=float32)}
    """
    points, tree = tree_flatten(marked_pytree)
    for point in points:
        if not isinstance(point, JoinPoint):
            msg = (f"pack_optimizer_state: leaves must be those of unpack_optimizer_state, "
                   f"JoinPoint, got {type(point).__name__}.")
            raise TypeError(msg)
    return _packed(tree, [point.subtree for point in points])
