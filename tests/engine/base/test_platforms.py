"""Rules and branches for GPUs are found under the vendor's name and under the name of all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import mjax
from mjax import lax
from mjax._engine.base.platforms import names_of
from mjax._engine.primitives.emit import op
from mjax_ext import core
from mjax_ext.interpreters import mlir
from mjaxlib_shim import client


def test_names():
    assert names_of("cpu") == ("cpu",)
    assert names_of("cuda") == ("cuda", "gpu") and names_of("rocm") == ("rocm", "gpu")
    assert set(names_of("gpu")) == {"gpu", "cuda", "rocm"}


@pytest.mark.parametrize("registered", ["cuda", "gpu", "rocm", None])
@pytest.mark.parametrize("lowered_for", ["cuda", "rocm", "gpu", "cpu"])
def test_lowering_rules_of_gpus(registered, lowered_for):
    p = core.Primitive("twice")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda ctx, x: op("stablehlo.add", ctx.out_types, [x, x]),
                           platform="tpu")
    mlir.register_lowering(p, lambda ctx, x: op("stablehlo.sine", ctx.out_types, [x]),
                           platform=registered)
    traced = mjax.jit(p.bind).trace(1.0)
    if registered is None or registered in names_of(lowered_for):
        assert "stablehlo.sine" in traced.lower(lowering_platforms=(lowered_for,)).as_text()
    else:
        with pytest.raises(mjax.errors.MissingRuleError, match=f"{lowered_for}.*only for"):
            traced.lower(lowering_platforms=(lowered_for,)).as_text()


def test_the_closest_rule_is_taken():
    p = core.Primitive("nearest")
    p.def_abstract_eval(lambda x: x)
    for platform, name in ((None, "sine"), ("gpu", "cosine"), ("cuda", "tanh")):
        mlir.register_lowering(p, lambda ctx, x, name=name: op(
            f"stablehlo.{name}", ctx.out_types, [x]), platform=platform)
    traced = mjax.jit(p.bind).trace(1.0)
    for platform, name in (("cpu", "sine"), ("rocm", "cosine"), ("cuda", "tanh")):
        assert f"stablehlo.{name}" in traced.lower(lowering_platforms=(platform,)).as_text()


def test_branches_of_gpus():
    traced = mjax.jit(lambda x: lax.platform_dependent(
        x, cuda=lax.sin, rocm=lax.tanh, default=lax.cos)).trace(1.0)
    for platform, name in (("cpu", "cosine"), ("cuda", "sine"), ("rocm", "tanh")):
        assert f"stablehlo.{name} " in traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(("version", "platform"), [
    ("cuda 12080", "cuda"), ("rocm 60300", "rocm"), ("PJRT C API\nrocm 7", "rocm")])
def test_vendors_of_devices(version, platform):
    device = SimpleNamespace(platform="gpu", client=SimpleNamespace(platform_version=version))
    assert client.vendor_platform(device) == platform
    assert client.vendor_platform(SimpleNamespace(platform="cpu")) == "cpu"
