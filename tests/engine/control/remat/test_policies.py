"""Policies of checkpoint: what each saves, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.ad_checkpoint import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    saved_residuals,
)

policies = mjax.checkpoint_policies
X = np.ones((2, 3, 5), "float32")
W = np.ones((5, 4), "float32")


def attention(x, w):
    """A product with batch dimensions and one without; three names."""
    scores = checkpoint_name(lax.dot_general(x, x, (((2,), (2,)), ((0,), (0,)))), "scores")
    y = lax.exp(checkpoint_name(lax.sin(scores), "sines"))
    z = lax.dot_general(x, w, (((2,), (0,)), ((), ())))
    return lax.sin(y), lax.sin(checkpoint_name(lax.sin(z), "out"))


#: Policy -> bytes of what is saved beside the arguments, by shape.
SAVED = {
    "nothing": (None, {}),
    "nothing_saveable": (policies.nothing_saveable, {}),
    # The cosine of each sine; the value of the exponential.
    "everything_saveable": (policies.everything_saveable, {(2, 3, 3): 3 * 72, (2, 3, 4): 2 * 96}),
    "dots_saveable": (policies.dots_saveable, {(2, 3, 3): 72, (2, 3, 4): 96}),
    "dots_with_no_batch_dims_saveable": (
        policies.dots_with_no_batch_dims_saveable, {(2, 3, 4): 96}),
    "one name": (policies.save_only_these_names("out"), {(2, 3, 4): 96}),
    "two names": (policies.save_only_these_names("out", "scores"),
                  {(2, 3, 3): 72, (2, 3, 4): 96}),
    "no name": (policies.save_only_these_names(), {}),
    "other names": (policies.save_any_names_but_these("out"), {(2, 3, 3): 2 * 72}),
    "any name": (policies.save_any_names_but_these(), {(2, 3, 3): 2 * 72, (2, 3, 4): 96}),
    "either": (policies.save_from_both_policies(
        policies.save_only_these_names("sines"), policies.dots_with_no_batch_dims_saveable),
        {(2, 3, 3): 72, (2, 3, 4): 96}),
    "names on the device": (policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["out"], names_which_can_be_offloaded=[], offload_src="device",
        offload_dst="pinned_host"), {(2, 3, 4): 96}),
    "Saveable and Recompute": (
        lambda p, *_, **__: Saveable if p is lax.dot_general_p else Recompute,
        {(2, 3, 3): 72, (2, 3, 4): 96}),
}


def saved(policy, f=attention):
    """Bytes by shape, of what is neither argument."""
    found: dict = {}
    for aval, origin in saved_residuals(mjax.checkpoint(f, policy=policy), X, W):
        if "argument" not in origin:
            size = aval.size * aval.dtype.itemsize
            found[aval.shape] = found.get(aval.shape, 0) + size
    return found


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved(name):
    policy, expected = SAVED[name]
    assert saved(policy) == expected


def test_convolutions_are_products():
    def f(x, w):
        y = lax.conv(lax.sin(x), lax.sin(lax.reshape(w, (4, 5, 1))), (1,), "VALID")
        return lax.sin(y)

    images = np.ones((2, 5, 3), "float32")

    def kept(policy):
        return [origin.split(" from ")[0] for _, origin in saved_residuals(
            mjax.checkpoint(f, policy=policy), images, W)]

    assert "output of conv_general_dilated" in kept(policies.dots_saveable)
    assert len(kept(policies.dots_with_no_batch_dims_saveable)) == len(kept(None)) == 2


def test_excepted_names_are_not_saved_by_the_way():
    """What has the name is its operand, too: saving that would save the value."""
    f = lambda x, w: lax.exp(checkpoint_name(lax.exp(lax.sin(x)), "big"))
    with_it, without = ([origin.split(" from ")[0] for _, origin in saved_residuals(
        mjax.checkpoint(f, policy=policy), X, W)] for policy in (
            policies.everything_saveable, policies.save_anything_except_these_names("big")))
    assert sorted(with_it) == ["output of cos", "output of exp", "output of exp"]
    assert sorted(without) == ["output of cos", "output of exp", "output of sin"]
    # Two policies withhold what both do.
    both = policies.save_from_both_policies(
        policies.save_anything_except_these_names("big", "other"),
        policies.save_anything_except_these_names("big"))
    assert saved(both, f) == saved(policies.save_anything_except_these_names("big"), f)
    either = policies.save_from_both_policies(
        policies.save_anything_except_these_names("big"), policies.everything_saveable)
    assert len(saved_residuals(mjax.checkpoint(f, policy=either), X, W)) == 3


def test_names_in_a_user_policy():
    seen = []

    def policy(primitive, *avals, **params):
        seen.append((primitive.name, avals, params))
        return False

    mjax.make_jaxpr(mjax.grad(mjax.checkpoint(
        lambda x: lax.exp(checkpoint_name(lax.sin(x), "a")), policy=policy)))(1.0)
    (name,) = [s for s in seen if s[0] == "name"]
    assert [str(a) for a in name[1]] == ["~float32[]"] and name[2] == {"name": "a"}


def test_policies_compare_by_value():
    for make in (policies.save_only_these_names, policies.save_any_names_but_these,
                 policies.save_anything_except_these_names):
        assert make("a", "b") == make("b", "a") != make("a")
        assert hash(make("a")) == hash(make("a"))
        assert repr(make("b", "a")) == f"{make.__name__}('a', 'b')"
    two = [policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("a")) for _ in range(2)]
    assert two[0] == two[1]
    assert repr(two[0]) == "save_from_both_policies(dots_saveable, save_only_these_names('a'))"


def test_names_are_jaxs():
    assert sorted(vars(policies)) == [
        "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "dots_saveable",
        "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable",
        "offload_dot_with_no_batch_dims", "save_and_offload_only_these_names",
        "save_any_names_but_these", "save_anything_except_these_names", "save_from_both_policies",
        "save_only_these_names"]
    assert policies.checkpoint_dots is policies.dots_saveable
    assert (policies.checkpoint_dots_with_no_batch_dims
            is policies.dots_with_no_batch_dims_saveable)


def offloading(primitive, *_, **__):
    return Offloadable("device", "pinned_host")


def derivative(policy):
    return mjax.grad(mjax.checkpoint(lambda x: lax.sin(lax.sin(x)), policy=policy))(1.0)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: policies.save_only_these_names(["a", "b"]), TypeError,
     r"save_only_these_names: names are strings, one argument each; got \['a', 'b'\] of type list"),
    (lambda: policies.save_any_names_but_these(3), TypeError,
     "save_any_names_but_these: names are strings"),
    (lambda: policies.save_anything_except_these_names(None), TypeError,
     "save_anything_except_these_names: names are strings"),
    (lambda: policies.save_from_both_policies(policies.dots_saveable, 3), TypeError,
     "save_from_both_policies: a policy must be callable, .* got 3 of type int"),
    (lambda: policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
     NotImplementedError,
     "offload_dot_with_no_batch_dims asks to keep values in another memory .*default memory"),
    (lambda: policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"], offload_src="device",
        offload_dst="pinned_host"), NotImplementedError,
     "save_and_offload_only_these_names asks to keep values in another memory"),
    (lambda: policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["a", "b"], names_which_can_be_offloaded=["b"],
        offload_src="device", offload_dst="pinned_host"), ValueError,
     r"\['b'\] are both to be saved and to be offloaded"),
    (lambda: derivative(offloading), NotImplementedError, "policy offloading asks to keep"),
    (lambda: derivative(lambda *_, **__: 1), TypeError,
     "a checkpoint policy must return a bool, or Saveable, Recompute or Offloadable of "
     "mjax.ad_checkpoint; <lambda> returned 1 of type int for (sin|cos)"),
    (lambda: derivative(policies.save_from_both_policies(
        policies.nothing_saveable, lambda *_, **__: None)), TypeError, "<lambda> returned None"),
])
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_verdicts_are_shown_by_name():
    assert repr((Saveable, Recompute)) == "(Saveable, Recompute)"
    assert Offloadable("a", "b") == ("a", "b")
