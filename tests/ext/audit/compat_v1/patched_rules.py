from mjax_ext.v1.core import ShapedArray
from mjax_ext.v1.core.primitives import jit_p
from mjax_ext.v1.interpreters.mlir import lower_fun
from mjax_ext.v1.interpreters.partial_eval import DynamicJaxprTracer, custom_staging_rules
