"""The changes of the surface that break it, oldest first: a module for each, with its `CHANGE`.

Generation v1 is the head so far, so there are none. `tests/generations/fixture` has one of each
kind.
"""

from __future__ import annotations

from mjax_ext._generations.change import Change

CHANGES: tuple[Change, ...] = ()
