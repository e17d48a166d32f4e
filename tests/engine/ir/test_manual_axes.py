"""`ManualAxisType`: a value; what it refuses."""

import copy
import pickle

import pytest

from mjax._engine.ir.manual_axes import ManualAxisType
from mjax._engine.ir.types import ShapedArray, typeof


def test_variance_by_the_names_that_jax_has_for_it():
    aval = ShapedArray((4,), "float32", varying=frozenset({"i"}))
    assert aval.vma == aval.manual_axis_type.varying == {"i"}
    assert aval.manual_axis_type.unreduced == aval.manual_axis_type.reduced == frozenset()
    assert typeof(1.0).manual_axis_type == ManualAxisType() and typeof(1.0).vma == frozenset()
    one = ManualAxisType(varying={"i"})
    assert one == aval.manual_axis_type != ManualAxisType()
    assert hash(one) == hash(aval.manual_axis_type) and one.update(varying={"j"}).varying == {"j"}
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert repr(one) == ("ManualAxisType(varying=frozenset({'i'}), unreduced=frozenset(), "
                         "reduced=frozenset())")
    with pytest.raises(AttributeError, match=r"immutable; \.update\(varying="):
        one.varying = frozenset()
    with pytest.raises(TypeError, match=r"varying must be a set of mesh axes, got 'i' of type str"):
        ManualAxisType(varying="i")
    with pytest.raises(NotImplementedError, match="no unreduced and reduced axes"):
        ManualAxisType(unreduced={"i"})
