"""Rules that say which dimensions are cut alike: their texts, and their attributes for shapes."""

from __future__ import annotations

import pytest

from mjax._engine.spmd.sharding_rules import rule_attribute, rule_of_text
from mjax.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
)
from mjaxlib_shim.mlir import new_context
from mjaxlib_shim.partitioners import lacks_factor_kinds


def attribute(rule, operands, results):
    with new_context():
        return str(rule_attribute(rule, operands, results)).removeprefix("#sdy.op_sharding_rule")


@pytest.mark.parametrize("text, operands, results", [
    ("i j, j k -> i k", (("i", "j"), ("j", "k")), (("i", "k"),)),
    ("->", ((),), ((),)),
    ("a ->", (("a",),), ((),)),
    ("...a->...a", ((f"{BATCHING}0", "a"),), ((f"{BATCHING}0", "a"),)),
    ("...1 a_1, ...2 -> ...02", ((f"{BATCHING}1", "a_1"), (f"{BATCHING}2",)),
     ((f"{BATCHING}2",),)),
    ("(i j)k,->k", ((CompoundFactor("i", "j"), "k"), ()), (("k",),)),
])
def test_texts(text, operands, results):
    options = dict.fromkeys("ij", 2) if "(" in text else {}
    rule = rule_of_text(text, **options)
    assert rule.operand_mappings == operands and rule.result_mappings == results
    assert repr(rule) == repr(SdyShardingRule(operands, results, **options))
    assert all(type(m) is ArrayMapping for m in rule.operand_mappings)


@pytest.mark.parametrize("text, why", [
    ("i j", "one ->"), ("i -> j -> k", "one ->"), ("i ... -> i", "first dimension"),
    ("(... i) -> i", "first dimension"), ("(i -> i", "not balanced"), ("i) -> i", "not balanced"),
    ("((i j) k) -> i", "nested"), ("(i) -> i", "two or more"), ("i. -> i", "character '.'"),
    ("1i -> i", "starts with a letter"), ("_i -> i", "starts with a letter"),
    (f"{BATCHING} -> i", "character"), ("i? -> i", r"character '\?'")])
def test_texts_that_are_refused(text, why):
    with pytest.raises(ValueError, match=why):
        rule_of_text(text)


def test_attributes():
    for text, operands, results, expected in (
            ("i j, j k -> i k", [(2, 4), (4, 8)], [(2, 8)],
             "<([i, j], [j, k])->([i, k]) {i=2, j=4, k=8}>"),
            ("... i -> ... i", [(2, 3, 4)], [(2, 3, 4)],
             "<([i, j, k])->([i, j, k]) {i=2, j=3, k=4}>"),
            ("... -> ...", [()], [()], "<([])->([])>"),
            ("...1 a, ...2 a -> ...1", [(2, 3), (5, 3)], [(2,)],
             "<([i, j], [k, j])->([i]) {i=2, j=3, k=5}>"),
            ("i, i -> i", [(8,), (4,)], [(6,)], "<([i], [i])->([i]) {i=4}>"),
            ("(i j) k -> i j k", [(8, 3)], [(2, 4, 3)],
             "<([ij, k])->([i, j, k]) {i=2, j=4, k=3}>")):
        assert attribute(rule_of_text(text), operands, results) == expected
    assert attribute(rule_of_text("(i j) -> (j i)", i=2, j=4), [(8,)], [(8,)]) == (
        "<([ij])->([ji]) {i=2, j=4}>")


def test_kinds_of_factors():
    rule = rule_of_text("i j k l -> i k l", reduction_factors=("j",),
                        need_replication_factors=("k",), permutation_factors=("l",))
    if needed := lacks_factor_kinds(True, True):
        with pytest.raises(NotImplementedError, match=f"kinds of factors that need {needed}"):
            attribute(rule, [(2, 3, 4, 5)], [(2, 4, 5)])
        rule = rule_of_text("i j k l -> i k l", reduction_factors=("j",))
        assert attribute(rule, [(2, 3, 4, 5)], [(2, 4, 5)]).startswith(
            "<([i, j, k, l])->([i, k, l]) {i=2, j=3, k=4, l=5}")
    else:
        assert attribute(rule, [(2, 3, 4, 5)], [(2, 4, 5)]) == (
            "<([i, j, k, l])->([i, k, l]) {i=2, j=3, k=4, l=5} reduction={j} need_replication={k} "
            "permutation={l}>")


def test_many_factors_have_names():
    names = [f"f{i}" for i in range(40)]
    shape = tuple(range(2, 42))
    text = attribute(SdyShardingRule((tuple(names),), (tuple(names),)), [shape], [shape])
    assert "z_22=41" in text and len(set(text.split("{")[1].split(", "))) == 40


@pytest.mark.parametrize("make, why", [
    (lambda: CompoundFactor("a"), "two or more factors, got"),
    (lambda: CompoundFactor("a", 1), "are strings, got 1"),
    (lambda: CompoundFactor("a", BATCHING), "ellipsis cannot be a part"),
    (lambda: CompoundFactor("a", "b-c"), "'-' in 'b-c'"),
    (lambda: ArrayMapping("a", BATCHING), "can only be the first"),
    (lambda: ArrayMapping(1), "strings or CompoundFactors, got 1 of type int"),
    (lambda: ArrayMapping(""), "starts with a letter"),
    (lambda: SdyShardingRule((("a",),), (("a",),), b=2), "factor b is given, but the rule does"),
    (lambda: SdyShardingRule((("a",),), (("a",),), a=2), "whole dimension.*leave a=2 out"),
    (lambda: SdyShardingRule(((("a", "b"),),), (("a",),)), "factor b only occurs in compound"),
    (lambda: SdyShardingRule((("a",),), ((),), reduction_factors=["a"]), "must be a tuple"),
    (lambda: SdyShardingRule((("a",),), ((),), reduction_factors=("b",)), "names the factor b"),
    (lambda: SdyShardingRule((("a",),), ((),), reduction_factors=("a", "a")), "factor a is in"),
    (lambda: SdyShardingRule((("a",),), ((),), reduction_factors=("a",),
                             permutation_factors=("a",)), "and in reduction_factors already"),
])
def test_rules_that_are_refused(make, why):
    with pytest.raises(ValueError, match=why):
        make()


@pytest.mark.parametrize("text, operands, results, why", [
    ("i -> i", [(2,), (2,)], [(2,)], "1 operands, but the operation has 2"),
    ("i -> i", [(2,)], [], "1 results, but the operation has 0"),
    ("i j -> i", [(2,)], [(2,)], "operand 0 of 2 dimensions, but it has 1"),
    ("i -> i", [(2, 3)], [(2,)], "operand 0 of 1 dimensions, but it has 2"),
    ("... i j -> ...", [(2,)], [()], "operand 0 of 2 or more dimensions, but it has 1"),
    ("... i -> ...", [(2, 3)], [()], "result 0 stands for 0 dimensions, but for 1 before"),
    ("..., ... -> ...", [(2,), (3,)], [(2,)], "operand 1 has the size 3, but 2 before"),
    ("(i j) -> i j", [(9,)], [(2, 4)], "operand 0 has the size 9, but its factors i j make 8"),
])
def test_rules_that_do_not_fit(text, operands, results, why):
    with pytest.raises(ValueError, match=why):
        attribute(rule_of_text(text), operands, results)


def test_arguments_of_other_types():
    with pytest.raises(TypeError, match="a rule is a string, got 3"):
        rule_of_text(3)
    with pytest.raises(TypeError, match="the size of the factor i must be an integer, got 2.0"):
        rule_of_text("(i j) -> (i j)", i=2.0, j=2)
