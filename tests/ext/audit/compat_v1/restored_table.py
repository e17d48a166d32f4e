from mjax_ext.v1.core import pytype_aval_mappings
