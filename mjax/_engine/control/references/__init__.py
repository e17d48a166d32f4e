"""Mutable references: their primitives, and transformations of programs that touch some."""
