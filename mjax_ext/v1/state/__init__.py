"""Modules of generation v1. Written by `python -m mjax_ext manifest --write`."""

from __future__ import annotations

from mjax_ext._generations.namespace import namespace

__all__: list[str] = []

__getattr__, __dir__ = namespace("mjax_ext.v1.state", __all__)
