"""Libraries on top of the numerical functions: images, ODE solvers, optimizers and others."""
