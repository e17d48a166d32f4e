"""docs/flags.md is what the tables say, and every flag is in one of them."""


import pytest

import mjax
from docs import flags
from mjax._engine.base.config import config, override
from mjax._flags.foreign import FOREIGN
from mjax._flags.table import OF_FUNCTIONS, OPTIONS, SETTINGS, from_environment


def test_the_page_is_what_the_tables_say():
    assert flags.PAGE.read_text() == flags.page(), "run: python -m docs.flags"


def test_type_checkers_see_the_flags_of_the_tables():
    assert flags.STUB.read_text() == flags.stub(), "run: python -m docs.flags"
    seen = flags.stub()
    for flag in (*SETTINGS, *OPTIONS):
        assert (f"\n    jax_{flag.name}: " in seen) == (flag.name not in OF_FUNCTIONS)
    assert "\n    enable_x64: bool\n" in seen
    assert "\n    default_matmul_precision: str | None\n" in seen


def test_ignored_flags_accept_everything():
    for row in FOREIGN:
        if not row.refused:
            value = not row.default if isinstance(row.default, bool) else "other"
            with override(**{row.name: value}):
                assert config.read("jax_" + row.name) == value
            assert config.read(row.name) == row.default


@pytest.mark.parametrize("row", [row for row in FOREIGN if row.refused], ids=lambda row: row.name)
def test_refused_flags_name_themselves_and_the_reason(row):
    with override(**{row.name: row.default}):
        assert config.read(row.name) == row.default
    with pytest.raises(ValueError, match=f"{row.name}.* can only be .* in mjax") as caught:
        mjax.config.update("jax_" + row.name, "other")
    assert row.why in str(caught.value)


def test_names_are_in_one_table():
    names = [flag.name for flag in (*SETTINGS, *OPTIONS)]
    assert len(names) == len(set(names))


def test_variables(monkeypatch):
    for name, text, value in (("scan3", "1", True), ("traceback_in_locations_limit", "7", 7),
                              ("persistent_cache_min_compile_time_secs", "0.25", 0.25)):
        monkeypatch.setenv(f"JAX_{name.upper()}", text)
        assert from_environment(next(f for f in OPTIONS if f.name == name)) == value


def test_variables_of_refused_flags(monkeypatch):
    monkeypatch.setenv("JAX_DEBUG_KEY_REUSE", "1")
    flag = next(f for f in OPTIONS if f.name == "debug_key_reuse")
    with pytest.raises(ValueError, match="JAX_DEBUG_KEY_REUSE: .* 'debug_key_reuse' can only be Fa"
                       ):
        from_environment(flag)
