"""diffrax: ordinary and stochastic equations, events, and derivatives through solves."""

import json

import diffrax
import jax
import jax.numpy as jnp
import optimistix

jax.config.update("jax_enable_x64", True)


def field(t, y, args):
    return jnp.stack([y[1], args * (1 - y[0] ** 2) * y[1] - y[0]])


def main():
    term, y0 = diffrax.ODETerm(field), jnp.array([1.0, 0.2])
    steps = diffrax.PIDController(rtol=1e-8, atol=1e-8)
    found = {}
    for solver in diffrax.Tsit5(), diffrax.Dopri8(), diffrax.Kvaerno5(), diffrax.Heun():
        controller = steps if not isinstance(solver, diffrax.Heun) else diffrax.ConstantStepSize()
        solution = jax.jit(lambda y, solver=solver, controller=controller: diffrax.diffeqsolve(
            term, solver, 0.0, 2.0, 0.05, y, args=0.7, stepsize_controller=controller,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 2, 4))).ys)(y0)
        found[type(solver).__name__] = solution.tolist()

    def final(y, mu, adjoint):
        solution = diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y, args=mu, stepsize_controller=steps,
            adjoint=adjoint)
        return jnp.sum(solution.ys ** 2)

    for adjoint in (diffrax.RecursiveCheckpointAdjoint(), diffrax.BacksolveAdjoint(),
                    diffrax.DirectAdjoint()):
        grads = jax.grad(final, (0, 1))(y0, 0.7, adjoint)
        found[type(adjoint).__name__] = [grads[0].tolist(), float(grads[1])]
    found["tangent"] = float(jax.jvp(
        lambda mu: final(y0, mu, diffrax.ForwardMode()), (0.7,), (1.0,))[1])
    found["batch"] = jax.vmap(
        lambda mu: final(y0, mu, diffrax.DirectAdjoint()))(jnp.array([0.1, 0.9])).tolist()

    ball = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -9.8])), diffrax.Tsit5(), 0.0, 9.0,
        0.01, jnp.array([5.0, 0.0]), stepsize_controller=steps,
        event=diffrax.Event(lambda t, y, args, **kwargs: y[0],
                            root_finder=optimistix.Newton(1e-8, 1e-8)))
    found["event"] = float(ball.ts[0])

    motion = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(2,), key=jax.random.key(5))
    noisy = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -y),
        diffrax.ControlTerm(lambda t, y, args: 0.3 * jnp.eye(2), motion))
    found["noise"] = diffrax.diffeqsolve(
        noisy, diffrax.Euler(), 0.0, 1.0, 0.05, y0).ys.tolist()
    dense = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y0, args=0.7,
                                saveat=diffrax.SaveAt(dense=True))
    found["dense"] = dense.evaluate(0.37).tolist()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
