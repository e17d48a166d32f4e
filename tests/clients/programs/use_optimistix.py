"""optimistix: minima, roots, fixed points and least squares, and derivatives through them."""

import json

import jax
import jax.numpy as jnp
import optimistix as optx

jax.config.update("jax_enable_x64", True)


def rosenbrock(y, args):
    return (1 - y[0]) ** 2 + args * (y[1] - y[0] ** 2) ** 2


def residuals(y, args):
    return jnp.stack([1 - y[0], args * (y[1] - y[0] ** 2), y[0] * y[1] - 2])


def main():
    start = jnp.asarray([-0.5, 0.7])
    found = {}
    for name, solver in (("BFGS", optx.BFGS(1e-9, 1e-9)),
                         ("NelderMead", optx.NelderMead(1e-10, 1e-10))):
        solution = optx.minimise(rosenbrock, solver, start, args=5.0, max_steps=2000)
        found[name] = solution.value.tolist()
    for name, solver in (("LM", optx.LevenbergMarquardt(1e-10, 1e-10)),
                         ("GaussNewton", optx.GaussNewton(1e-10, 1e-10))):
        found[name] = optx.least_squares(residuals, solver, start + 1, args=3.0).value.tolist()

    def root(a):
        return optx.root_find(lambda y, a: jnp.exp(y) - a, optx.Newton(1e-12, 1e-12),
                              jnp.asarray(0.5), args=a).value

    found["root"] = [float(root(3.0)), float(jax.grad(root)(3.0))]
    found["bisection"] = float(optx.root_find(
        lambda y, _: y ** 3 - 2, optx.Bisection(1e-12, 1e-12), jnp.asarray(1.0),
        options={"lower": 0.0, "upper": 4.0}).value)

    def fixed(a):
        return optx.fixed_point(lambda y, a: jnp.cos(a * y), optx.FixedPointIteration(1e-12, 1e-12),
                                jnp.asarray(0.5), args=a, max_steps=1000).value

    found["fixed point"] = [float(fixed(0.8)), float(jax.jit(jax.grad(fixed))(0.8))]
    found["batch"] = jax.vmap(root)(jnp.asarray([2.0, 3.0, 4.0])).tolist()
    failed = optx.root_find(lambda y, _: y ** 2 + 1, optx.Newton(1e-9, 1e-9), jnp.asarray(0.5),
                            max_steps=8, throw=False)
    found["failed"] = bool(failed.result == optx.RESULTS.successful)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
