"""`mjax.alias`: programs that import jax, in processes of their own."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from mjax.alias import _modules, _table

ROOT = pathlib.Path(__file__).parents[2]


def run(program, *command):
    command = command or ("-c", textwrap.dedent(program))
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT)


def passes(program):
    ended = run(program)
    assert ended.returncode == 0, ended.stderr


def test_programs_that_import_jax():
    passes("""
        import mjax.alias
        jax = mjax.alias.install()
        import importlib.metadata, mjax, pickle, sys
        import jax.numpy as jnp, jax.scipy.special, jax.extend.core, jax.interpreters.ad as ad
        import jax.experimental.shard_map, jax.version, jax.lib
        from jax import core, lax, random
        from jax.extend import linear_util
        from jax.tree_util import *
        import mjax_ext.core

        assert sys.modules["jax"] is jax and jax is not mjax and jnp is not mjax.numpy
        assert jnp.sin is mjax.numpy.sin and lax.scan is mjax.lax.scan
        assert tree_map is mjax.tree_util.tree_map and linear_util.wrap_init
        assert core.Tracer is mjax_ext.core.Tracer and ad.Zero
        assert jax.__version__ == jax.version.__version__ == "0.10.2"
        assert jax.__version_info__ == (0, 10, 2) and jax.lib.__version__[0] == "0"
        assert importlib.metadata.version("jax") == "0.10.2"
        assert importlib.metadata.version("jaxlib") == jax.lib.__version__
        names = [d.metadata["Name"] for d in importlib.metadata.distributions()]
        assert "jax" in names and "numpy" in names
        assert float(jax.jit(jax.grad(lambda x: jnp.sum(x ** 2)))(3.0)) == 6.0
        assert not hasattr(core, "get_aval"), "jax 0.10.2 does not have it"
        assert "numpy" in dir(jax) and "Primitive" in dir(jax.extend.core)
        assert pickle.loads(pickle.dumps(jnp.arange(3))).tolist() == [0, 1, 2]

        jax.vmap = jnp.sin = None  # not those of mjax
        assert mjax.vmap and mjax.numpy.sin
        assert mjax.alias.install() is jax
        assert mjax.alias.install(jax_version="0.10.2") is jax
        try:
            mjax.alias.install("0.9.0")
        except RuntimeError as e:
            assert "installed already, as jax 0.10.2" in str(e) and "0.9.0" in str(e)
        else:
            raise AssertionError
    """)


def test_private_names_that_are_provided():
    passes("""
        import mjax.alias
        mjax.alias.install()
        import numpy as np
        import jax, mjax, mjax.numpy as jnp
        import jax._src.traceback_util as traceback_util
        from jax._src import compiler, core, dtypes, literals, xla_bridge
        from jax._src.tree_util import _registry
        from jax._src.public_test_util import check_close
        from jax._src.state.types import AbstractRef

        assert traceback_util.include_frame and core.trace_state_clean()
        assert dtypes.to_complex_dtype(np.float64) == np.complex128
        assert dtypes.to_complex_dtype("float16") == np.complex64
        finite = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"}
        for name in ("float16", "bfloat16", "float32", "float64", "float8_e5m2", *finite):
            assert dtypes.supports_inf(name) == (name not in finite), name
        for kind in "NdArray", "Int", "Float", "Complex":
            kind = getattr(literals, f"Typed{kind}")
            assert not any(isinstance(x, kind) for x in (1, 1.0, 1j, np.ones(2), jnp.ones(2)))
            try:
                kind(1)
            except TypeError as e:
                assert "mjax does not have" in str(e)
            else:
                raise AssertionError
        assert dict in _registry and np.ndarray not in _registry
        assert isinstance(jax.typeof(jax.new_ref(1.0)), AbstractRef)
        check_close({"a": jnp.ones(2)}, {"a": np.ones(2) + 1e-7})
        for other in (np.ones(2) + 1e-2, np.ones(3)):
            try:
                check_close(jnp.ones(2), other, err_msg="here")
            except AssertionError as e:
                assert "here" in str(e)
            else:
                raise RuntimeError
        jax._src.dispatch.wait_for_tokens()

        # Assignment reaches the compiler.
        inner, seen = compiler.backend_compile_and_load, []
        def outer(backend, *args, **kwargs):
            seen.append(backend.platform)
            return inner(backend, *args, **kwargs)
        compiler.backend_compile_and_load = outer
        jax.jit(lambda x: x - 17)(1)
        compiler.backend_compile_and_load = inner
        jax.jit(lambda x: x - 18)(1)
        assert seen[-1] == "cpu" == list(xla_bridge._backends)[-1]
        assert compiler.backend_compile_and_load is inner
        before = len(seen)
        jax.jit(lambda x: x - 19)(1)
        assert len(seen) == before
    """)


def test_private_names_of_errors_trees_and_processes():
    passes("""
        import mjax.alias
        mjax.alias.install()
        import jax, numpy as np, os, sys
        from jax._src import api_util, checkify, distributed, traceback_util, tree_util

        def f(x, y, *, z): ...
        import inspect
        assert api_util.infer_argnums_and_argnames(inspect.signature(f), 1, None) == ((1,), ("y",))
        assert list(tree_util.flatten_one_level({"a": [1, 2]})[0]) == [[1, 2]]

        def fails(x):
            jax.experimental.checkify.check(x > 0, "small")
        import jax.experimental.checkify
        error, _ = checkify.checkify(fails)(np.float32(-1))
        assert isinstance(error.get_exception(), checkify.JaxException)

        from jax._src.random import threefry2x32
        key, keys = threefry2x32.threefry_seed(np.int32(7)), jax.random.split(jax.random.key(7))
        assert (key == jax.random.key_data(jax.random.key(7))).all()
        assert (threefry2x32.threefry_split(key, (2,)) == jax.random.key_data(keys)).all()
        bits = threefry2x32.threefry_random_bits(key, 32, (3,))
        assert (bits == jax.random.bits(jax.random.key(7), (3,))).all()

        state = distributed.global_state
        assert (state.process_id, state.num_processes) == (0, 1)
        assert state.client is None and state.coordinator_address is None

        here, paths = os.path.join(os.sep, "somewhere", "a.py"), traceback_util._exclude_paths
        frame = eval(compile("__import__('sys')._getframe()", here, "eval"))
        assert traceback_util.include_frame(frame) and here not in paths
        paths.append(here)
        assert here in paths and here in list(paths)
        assert not traceback_util.include_frame(frame)
        paths.remove(here)
        assert traceback_util.include_frame(frame) and here not in paths
        try:
            paths.remove(here)
        except ValueError:
            pass
        else:
            raise AssertionError
    """)


def test_names_that_are_not_there():
    passes("""
        import mjax.alias
        jax = mjax.alias.install()
        import jax._src.core as core

        def message(statement, kind):
            try:
                exec(statement)
            except kind as e:
                return str(e)
            raise AssertionError(statement)

        for name, use in (("core.DBIdx", "docs/alias.md"), ("core.DShapedArray", "docs/alias.md"),
                          ("core.JaxprBuilder", "Use mjax_ext.core.JaxprBuilder"),
                          ("pjit.with_nothing", "docs/alias.md")):
            module, attribute = name.split(".")
            said = message(f"from jax._src.{module} import {attribute}", ImportError)
            assert f"jax._src.{name}" in said and use in said, said
            assert not hasattr(getattr(jax._src, module), attribute)
            said = message(f"jax._src.{name}", AttributeError)
            assert f"jax._src.{name}" in said and use in said, said
        for statement in ("import jax._src.nowhere", "from jax._src import nowhere",
                          "from jax._src.nowhere import f", "import jax.extend.nowhere"):
            assert "docs/alias.md" in message(statement, ImportError)
        said = message("import jax.experimental.pallas", ModuleNotFoundError)
        assert "jax 0.10.2 has jax.experimental.pallas" in said
        assert "mjax.numpy.trapezoid" in message("from jax.numpy import trapz", ImportError)
        assert "mjax.numpy.trapezoid" in message("jax.numpy.trapz", AttributeError)
        assert "write `from jax import config`" in message(
            "from jax.config import config", ModuleNotFoundError)
        assert "Use mjax_ext.util" in message("from jax.util import safe_map", ImportError)
        assert "Use mjax_ext.linear_util" in message("jax.linear_util", AttributeError)
        assert message("import jax.alias", ImportError)
        assert not hasattr(jax, "alias") and not hasattr(jax, "__file__")
    """)


def test_tools_that_ask_what_there_is():
    passes("""
        import importlib.metadata, importlib.util
        import mjax.alias
        jax = mjax.alias.install()
        assert importlib.util.find_spec("jax.numpy").name == "jax.numpy"
        assert importlib.util.find_spec("jax.nowhere") is None
        assert importlib.util.find_spec("jax._src.nowhere") is None
        assert importlib.metadata.version("JAX") == "0.10.2"
        assert all(hasattr(jax, name) for name in dir(jax))
        names = {}
        exec("from jax import *", names)
        assert {"jit", "grad", "numpy", "Array"} <= {*names}
    """)


def test_the_real_jax_is_loaded():
    ended = run("""
        import sys, types
        sys.modules["jax"] = types.ModuleType("jax")
        sys.modules["jax"].__file__ = "/a/place"
        import mjax.alias
        mjax.alias.install()
    """)
    assert ended.returncode == 1
    assert re.search(r"RuntimeError: .*too late: the real jax .*/a/place.*-m mjax\.alias`",
                     ended.stderr)


def test_what_a_failed_import_of_jax_left():
    passes("""
        import sys, types
        sys.modules["jax.version"] = types.ModuleType("jax.version")
        import mjax.alias
        import jax
    """.replace("import jax\n", "mjax.alias.install(); import jax.version\n"
                "        assert jax.version.__version__ == '0.10.2'\n"))


@pytest.mark.parametrize(
    "version", ["0.10", "1.2.3.4", "0.10.2rc1", "\u0660.1.2", None, (0, 10, 2)])
def test_versions_that_are_none(version):
    import mjax.alias
    with pytest.raises(ValueError, match=r"a release such as '0\.10\.2', not"):
        mjax.alias.install(version)
    assert not isinstance(sys.modules.get("jax"), _modules.AliasModule)


def test_mjax_does_not_install_it():
    passes("""
        import sys, mjax, mjax_ext, mjax.numpy, mjax.random, mjax_ext.core
        assert not [name for name in sys.modules if name.startswith(("mjax.alias", "jax."))]
        assert "jax" not in sys.modules
        mjax.alias
        assert "jax" not in sys.modules and mjax.alias.install is sys.modules["mjax.alias"].install
    """)


def test_scripts_and_modules(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nfrom jax import numpy as jnp, __version__\n"
                      "print(__name__, __version__, sys.argv[1:], jnp.arange(3).sum())\n"
                      "sys.exit(3)\n")
    (tmp_path / "beside.py").write_text("")
    ended = run("", "-m", "mjax.alias", str(script), "-x", "--jax-version")
    assert ended.stdout == "__main__ 0.10.2 ['-x', '--jax-version'] 3\n", ended.stderr
    assert ended.returncode == 3
    ended = run("", "-m", "mjax.alias", "--jax-version", "0.9.1", "-m", "tests.alias.program", "a")
    assert (ended.returncode, ended.stdout) == (0, "__main__ 0.9.1 ['a']\n"), ended.stderr
    for arguments, said in ((("nowhere.py",), "no file 'nowhere.py'"), ((), "required: program"),
                            (("-m", "nowhere"), "no module 'nowhere'"),
                            (("--jax-version", "9", "x"), "a release such as")):
        ended = run("", "-m", "mjax.alias", *arguments)
        assert ended.returncode == 2 and said in ended.stderr


def test_the_pytest_plugin(tmp_path):
    (tmp_path / "conftest.py").write_text("import jax\n")
    (tmp_path / "test_it.py").write_text(
        "import jax\ndef test_it():\n    assert jax.numpy.arange(3).sum() == 3\n")
    options = ("-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path))
    ended = run("", "-m", "pytest", "-p", "mjax.alias.pytest", *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_sparse_matrices():
    passes("""
        import mjax.alias
        jax = mjax.alias.install()
        import numpy as np, scipy.sparse
        from jax.experimental.sparse import BCOO

        dense = np.array([[0, 1.5, 0], [2, 0, -1]], np.float32)
        m = BCOO.from_scipy_sparse(scipy.sparse.csr_matrix(dense))
        vectors = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for b in (m, BCOO.fromdense(dense)):
            assert (b.shape, b.ndim, b.nse, b.dtype) == ((2, 3), 2, 3, np.float32)
            assert (b.todense() == dense).all() and (b.T.todense() == dense.T).all()
            for x in (vectors[0, :, 0], vectors[0], vectors):
                np.testing.assert_allclose(b @ x, dense @ x)
            np.testing.assert_allclose(vectors[0, :2, 0] @ b, vectors[0, :2, 0] @ dense)
            np.testing.assert_allclose(vectors[:, :2, :].swapaxes(1, 2) @ b,
                                       vectors[:, :2, :].swapaxes(1, 2) @ dense)
        np.testing.assert_allclose(jax.jit(lambda b, x: b @ x)(m, vectors[0]), dense @ vectors[0])
        slope = jax.grad(lambda d: (BCOO((d, m.indices), shape=m.shape) @ vectors[0]).sum())
        np.testing.assert_allclose(slope(m.data), vectors[0].sum(1)[m.indices[:, 1]])
        twice = BCOO((np.ones(2), np.zeros((2, 2), int)), shape=(1, 1))
        assert twice.todense() == 2 == (twice @ np.ones(1))[0]
        cube = BCOO.fromdense(vectors)
        assert cube.nse == 23 and (cube.todense() == vectors).all()
        assert (cube.T.todense() == vectors.T).all()
        from jax.experimental.sparse import sparsify
        mean = jax.jit(sparsify(lambda parts, *, scale: scale * parts["x"].mean()))
        np.testing.assert_allclose(mean({"x": cube}, scale=m.data[0]), 1.5 * vectors.mean())
        for bad in (lambda: m @ m, lambda: m @ np.ones(2), lambda: m @ 1.0,
                    lambda: BCOO((np.ones(2), np.zeros((3, 2), int)), shape=(1, 1)),
                    lambda: BCOO((np.ones(2), np.zeros((2, 2), int)), shape=(1, 1, 1)),
                    lambda: BCOO.fromdense(vectors) @ vectors):
            try:
                bad()
            except (TypeError, ValueError):
                pass
            else:
                raise AssertionError
    """)


def _rows():
    for module, names in _table.CLOSED.items():
        for name in names:
            yield module, name


def test_the_table_leads_somewhere():
    for module, name in _rows():
        assert _modules._look_up(module, name) is not None, (module, name)
    for path in _table.LIVE:
        module, _, name = path.rpartition(".")
        assert name in _table.CLOSED[module]
    for module in _table.OPEN:
        assert _modules._open_home(module), module


def test_the_page_lists_the_private_names():
    page = (ROOT / "docs" / "alias.md").read_text()
    listed = {(row[1], name) for row in re.finditer(r"^\| `(jax\.\S+)` \| (.*?) \|", page, re.M)
              for name in re.findall(r"`(\w+)`", row[2])}
    wanted = {(module, name) for module, name in _rows()
              if module.startswith(("jax._src", "jax.experimental"))}
    assert listed == wanted


def test_the_rest_of_mjax_does_not_load_the_surface_above_it():
    """Import-linter cannot see modules that are named in tables. The two files of `base` name them
    to tell whose frames they see, and which modules plug into which sockets."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "mjax").rglob("*.py")) if "alias" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        and re.fullmatch(r"(mjax_ext|mjax\.alias)(\.\w+)*(:\w+)?", node.value)}
    assert found == {f"mjax/_engine/base/{name}.py" for name in ("folding", "sockets")}
