"""Taylor mode: derivatives of any order at once."""

from mjax._engine.base.faces import face
from mjax._jet.jet import jet
from mjax._jet.series import jet_rules

__all__ = ["jet", "jet_rules"]

face("mjax.experimental.jet")
