"""A library of random models with handlers of effects.

A model is a function that calls `sample`, `param` and `scan`. Handlers around it see each call as
a message, the innermost handler first: `seed` gives keys, `substitute` and `condition` values,
`scale` and `mask` weights, `block` hides messages from handlers outside, `trace` records them.
`log_density` is the logarithm of the joint density. In a `scan` handlers act on the slices of each
iteration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any

import mjax
import mjax.numpy as jnp
from mjax import lax, random, tree_util
from mjax.scipy import stats
from mjax_ext import core

STACK = []


class HandlerError(Exception):
    """A call that no handler answers, or that a handler cannot answer."""


# ---- distributions -----------------------------------------------------------------------


def distribution(cls):
    """A class of parameters that are arrays, as a pytree."""
    cls = dataclasses.dataclass(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return tree_util.register_dataclass(cls, data_fields=names, meta_fields=[])


class Distribution:
    """The base: parameters of one shape, which is that of a draw."""

    def shape(self):
        return jnp.broadcast_shapes(*map(jnp.shape, tree_util.tree_leaves(self)))


@distribution
class Normal(Distribution):
    loc: Any
    scale: Any

    def sample(self, key):
        return self.loc + self.scale * random.normal(key, self.shape())

    def log_prob(self, x):
        return stats.norm.logpdf(x, self.loc, self.scale)


@distribution
class Exponential(Distribution):
    rate: Any

    def sample(self, key):
        return random.exponential(key, self.shape()) / self.rate

    def log_prob(self, x):
        return jnp.where(x >= 0, jnp.log(self.rate) - self.rate * x, -jnp.inf)


@distribution
class Bernoulli(Distribution):
    probability: Any

    def sample(self, key):
        return random.bernoulli(key, self.probability, self.shape())

    def log_prob(self, x):
        return jnp.log(jnp.where(x, self.probability, 1 - self.probability))


# ---- messages ----------------------------------------------------------------------------


@functools.partial(tree_util.register_dataclass, data_fields=["dist", "value", "scale", "mask"],
                   meta_fields=["kind", "name", "observed", "loops"])
@dataclasses.dataclass
class Site:
    """One call of a model, as handlers see it; a pytree of its arrays.

    In `loops` scans around it: its arrays have a leading axis for each.
    """

    kind: str
    name: str
    dist: Any = None
    value: Any = None
    observed: bool = False
    scale: Any = 1.0
    mask: Any = True
    loops: int = 0

    def log_prob(self):
        """Its term of the log density, summed."""
        def term(dist, value, scale, mask):
            return jnp.sum(scale * jnp.where(mask, dist.log_prob(value), 0.0))

        for _ in range(self.loops):
            term = mjax.vmap(term)
        return jnp.sum(term(self.dist, self.value, self.scale, self.mask))


class Handler:
    """The base of handlers: a context, and a wrapper of models."""

    def __init__(self, model=None):
        self.model = model

    def __enter__(self):
        self.state = core.get_opaque_trace_state(convention="handlers")
        STACK.append(self)
        return self

    def __exit__(self, *error):
        assert STACK.pop() is self

    def __call__(self, *args, **kwargs):
        with self:
            return self.model(*args, **kwargs)

    def process(self, site, keys):
        """Changes a site before it has a value."""

    def postprocess(self, site):
        """Sees it with its value."""

    def hides(self, site):
        return False

    def slices(self, length):
        """The values that a handler of the same class gives in the iterations of a scan."""
        return None


def _reach(site):
    """The handlers that see a site, the innermost first."""
    for handler in reversed(STACK):
        if core.get_opaque_trace_state(convention="handlers") != handler.state:
            raise HandlerError(
                f"{site.kind} {site.name!r} is called in a transformation within the handler "
                f"{type(handler).__name__}. Transform the handled model, or use scan.")
        yield handler
        if handler.hides(site):
            return


def _call(site, draw):
    keys, reached = [], list(_reach(site))
    for handler in reached:
        handler.process(site, keys)
    if site.value is None:
        site.value = draw(keys)
    for handler in reached:
        handler.postprocess(site)
    return site.value


def sample(name, dist, obs=None):
    """A draw from a distribution, or an observation."""
    def draw(keys):
        if not keys:
            raise HandlerError(f"sample {name!r} needs a key: handle the model with seed.")
        return dist.sample(keys[0])

    return _call(Site("sample", name, dist, obs, obs is not None), draw)


def param(name, init):
    """A parameter to optimise; `init` if nothing is substituted."""
    return _call(Site("param", name), lambda keys: init)


# ---- handlers ----------------------------------------------------------------------------


class seed(Handler):
    """Gives each draw a key of its own."""

    def __init__(self, model=None, key=None):
        super().__init__(model)
        self.first = random.key(key) if isinstance(key, int) else key

    def __enter__(self):
        self.key = self.first
        return super().__enter__()

    def next(self):
        self.key, key = random.split(self.key)
        return key

    def process(self, site, keys):
        if site.kind == "sample" and site.value is None and not keys:
            keys.append(self.next())


class trace(Handler):
    """Records sites."""

    def __enter__(self):
        self.sites = {}
        return super().__enter__()

    def postprocess(self, site):
        if site.name in self.sites:
            raise HandlerError(f"two sites have the name {site.name!r}.")
        self.sites[site.name] = dataclasses.replace(site)

    def get_trace(self, *args, **kwargs):
        self(*args, **kwargs)
        return self.sites


class substitute(Handler):
    """Gives values by name, in the place of draws and parameters."""

    observes = False

    def __init__(self, model=None, data=None):
        super().__init__(model)
        self.data = data

    def process(self, site, keys):
        if site.name in self.data and not site.observed:
            value = self.data[site.name]
            if site.loops and jnp.shape(value) != jnp.shape(site.value):
                raise HandlerError(f"the value for {site.name!r}, which is in a scan, must have "
                                   f"the shape {jnp.shape(site.value)}.")
            site.value, site.observed = value, self.observes

    def slices(self, length):
        return {name: value for name, value in self.data.items()
                if jnp.shape(value)[:1] == (length,)}


class condition(substitute):
    """Gives values by name, which are observations from then on."""

    observes = True

    def process(self, site, keys):
        if site.kind == "sample":
            super().process(site, keys)


class block(Handler):
    """Hides sites from the handlers outside."""

    def __init__(self, model=None, hide=()):
        super().__init__(model)
        self.hide = hide

    def hides(self, site):
        return site.name in self.hide


class scale(Handler):
    """Multiplies the log density of what is inside."""

    def __init__(self, model=None, factor=1.0):
        super().__init__(model)
        self.factor = factor

    def process(self, site, keys):
        site.scale = site.scale * self.factor


class mask(Handler):
    """Leaves terms out of the log density of what is inside."""

    def __init__(self, model=None, keep=True):
        super().__init__(model)
        self.keep = keep

    def process(self, site, keys):
        site.mask = jnp.logical_and(site.mask, self.keep)


# ---- loops -------------------------------------------------------------------------------


def scan(f, init, xs, length=None):
    """`lax.scan` of a part of a model, whose sites come out stacked under their names.

    The innermost `seed` gives each iteration a key. Values by name are slices of the values that
    handlers outside have.
    """
    length = length or tree_util.tree_leaves(xs)[0].shape[0]
    reached = list(_reach(Site("scan", f.__name__)))
    keys = next((random.split(h.next(), length) for h in reached if isinstance(h, seed)), None)
    given = [(type(h), values) for h in reached if (values := h.slices(length))]

    def step(carry, slices):
        key, x, data = slices
        run = functools.partial(f, carry, x)
        for (cls, _), values in zip(given, data, strict=True):
            run = cls(run, values)
        with _alone(), trace() as found:
            carry, y = (run if key is None else seed(run, key))()
        return carry, (y, found.sites)

    carry, (ys, sites) = lax.scan(
        step, init, (keys, xs, [values for _, values in given]), length=length)
    for site in sites.values():
        _call(dataclasses.replace(site, loops=site.loops + 1), None)
    return carry, ys


@contextlib.contextmanager
def _alone():
    """Without the handlers outside."""
    outside, STACK[:] = list(STACK), []
    try:
        yield
    finally:
        STACK[:] = outside


# ---- densities ---------------------------------------------------------------------------


def log_density(model, data):
    """The function that gives the log density of a model's arguments, and its sites."""
    def density(*args, **kwargs):
        sites = trace(substitute(model, data)).get_trace(*args, **kwargs)
        terms = [site.log_prob() for site in sites.values() if site.kind == "sample"]
        return sum(terms, jnp.zeros(())), sites

    return density
