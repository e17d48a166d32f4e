"""Records against typing's named tuples: the same class, by what can be seen of it."""

import copy
import pickle
import sys
from typing import Any, NamedTuple, get_type_hints

import pytest

from mjax._engine.base.records import Record


class Ours(Record):
    """A point."""

    x: int
    y: Any = 2

    def total(self):
        return self.x + self.y

    @property
    def first(self):
        return self.x


class Theirs(NamedTuple):
    """A point."""

    x: int
    y: Any = 2

    def total(self):
        return self.x + self.y

    @property
    def first(self):
        return self.x


@pytest.mark.parametrize("name", [
    "__doc__", "__module__", "_fields", "_field_defaults", "__bases__", "__match_args__",
    "__slots__"])
def test_definition(name):
    assert getattr(Ours, name) == getattr(Theirs, name)


def test_names_and_annotations():
    assert (Ours.__name__, Ours.__qualname__) == ("Ours", "Ours")
    assert get_type_hints(Ours) == get_type_hints(Theirs)
    assert type(Ours) is type


def test_values():
    for cls in (Ours, Theirs):
        p = cls(1)
        assert p == (1, 2) and cls(y=3, x=1) == (1, 3)
        assert p.total() == 3 and p.first == 1
        assert p._replace(x=5) == (5, 2) and p._asdict() == {"x": 1, "y": 2}
        assert repr(p) == f"{cls.__name__}(x=1, y=2)"
        assert pickle.loads(pickle.dumps(p)) == p and type(pickle.loads(pickle.dumps(p))) is cls
        assert not hasattr(p, "__dict__") and sys.getsizeof(p) == sys.getsizeof((1, 2))
        assert cls._make([3, 4]) == (3, 4)
        if sys.version_info >= (3, 13):
            assert copy.replace(p, y=4) == (1, 4)
        with pytest.raises(TypeError, match="Expected 2 arguments, got 3"):
            cls._make([1, 2, 3])
        with pytest.raises((TypeError, ValueError), match=r"unexpected field names: \['z'\]"):
            p._replace(z=0)
        with pytest.raises(AttributeError):
            p.x = 3
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            cls()


def test_fields_with_defaults_come_last():
    with pytest.raises(TypeError, match=r"Wrong: fields with defaults \(a\) come last"):
        class Wrong(Record):
            a: int = 0
            b: int
