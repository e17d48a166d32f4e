"""Tests mirror the folders of the packages; helpers are imported as `tests.<path>`."""
