"""Tools above the numerical functions: images, solvers of differential equations, optimizers."""
