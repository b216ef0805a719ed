"""The build of kernels: what it makes, what it refuses, and that the library is up to date."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tessel.kernels
from tessel.cancelling import CancelFlag
from tessel.errors import CancelledError
from tessel.kernels import build, library
from tessel.kernels.declare import Kernel, kernel
from tests.kernels.forced import LEVELS, in_form

FOLDER = Path(tessel.kernels.__path__[0])
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if "@kernel(" in path.read_text())
MODULES.remove("declare")
KERNELS = [
    each
    for name in MODULES
    for each in vars(importlib.import_module(f"tessel.kernels.{name}")).values()
    if isinstance(each, Kernel) and each.module == f"tessel.kernels.{name}"
]


def test_the_library_is_made_of_these_sources() -> None:
    assert library.digest() == build.digest_of_sources(), "run make kernels"


@pytest.mark.parametrize("each", KERNELS, ids=lambda each: f"{each.module[15:]}.{each.name}")
def test_each_kernel_has_machine_code_of_all_types_and_levels(each: Kernel) -> None:
    for combination in each.combinations:
        for level in library.machine_levels():
            assert callable(each.entry(*combination.values(), level=level))
    given = list(inspect.signature(each.python).parameters)
    assert given == [argument.name for argument in each.arguments], "as declared"
    assert each.__doc__


def _undefined_symbols(path: Path) -> set[str]:
    """Return what a library of 64-bit ELF wants of others, by its table of dynamic symbols."""
    octets = path.read_bytes()
    assert octets[:5] == b"\x7fELF\x02"
    start, size, count = (
        *struct.unpack_from("<Q", octets, 40),
        *struct.unpack_from("<HH", octets, 58),
    )
    sections = [struct.unpack_from("<IIQQQQII", octets, start + n * size) for n in range(count)]
    (symbols,) = [each for each in sections if each[1] == 11]
    names = sections[symbols[6]][4]
    wanted = set()
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, section = struct.unpack_from("<IBBH", octets, at)
        if name and section == 0:
            wanted.add(octets[names + name : octets.index(0, names + name)].decode())
    return wanted


def test_the_library_needs_no_other() -> None:
    wanted = _undefined_symbols(library.library_path())
    assert wanted <= {"memset", "memcpy", "memmove"}
    assert len(_undefined_symbols(Path(np._core._multiarray_umath.__file__))) > 100, "it finds some"


def test_what_runs_imports_no_compiler() -> None:
    code = (
        "import sys, numpy as np, tessel as ts\n"
        "store = ts.open('memory://x')\n"
        "store.write('x', {'v': np.arange(300_000)})\n"
        "query = ts.QueryBuilder().filter('v > 7').agg(n=('v', 'sum'))\n"
        "assert len(store.read('x', query=query).to_arrow()) == 1\n"
        "found = {'numba', 'llvmlite', 'tessel.kernels.build', 'tessel.kernels.lowering'}\n"
        "assert found.isdisjoint(sys.modules), found & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


SOURCE = '''
from tessel.kernels.declare import inner, kernel
import numpy as np

@kernel("values: f64[n], out: mut f64[n]")
def tried(values, out):
    """Do it."""
    {body}
'''
REFUSED = {
    "raise ValueError('no')": "raises an exception",
    "assert len(values) > 3": "raises an exception",
    "made = np.empty(3)\n    out[0] = made[0]": "cannot be compiled",
    "out[:] = values": "cannot be compiled",
    "out.sort()": "cannot be compiled",
    "out[0] = np.exp(values[0])": "exp",
    "out[0] = values[0] ** values[1]": "pow",
    "print(values[0])": "cannot be compiled|calls|raises",
    "out[0] = nothing": "cannot be compiled",
}


def _build(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Build a library of one kernel, in a folder of its own."""
    package = folder / "tessel"
    (package / "kernels").mkdir(parents=True)
    for name in ("build", "declare", "intrinsics", "library", "lowering"):
        shutil.copy(FOLDER / f"{name}.py", package / "kernels")
    for name in ("cancelling", "closing", "forking", "lazy"):
        shutil.copy(FOLDER.parent / f"{name}.py", package)
    shutil.copytree(FOLDER.parent / "errors", package / "errors")
    (package / "kernels" / "trial.py").write_text(SOURCE.replace("{body}", body))
    return subprocess.run(
        [sys.executable, package / "kernels" / "build.py"], capture_output=True, text=True
    )


@pytest.mark.parametrize("body", REFUSED)
def test_what_no_kernel_can_say_is_refused(tmp_path: Path, body: str) -> None:
    done = _build(tmp_path, body)
    assert done.returncode == 1
    assert "trial.tried" in done.stderr
    assert any(each in done.stderr for each in REFUSED[body].split("|")), done.stderr
    assert not list((tmp_path / "tessel" / "kernels").glob("kernels.*"))


def test_a_second_build_does_nothing_and_a_change_is_seen(tmp_path: Path) -> None:
    done = _build(tmp_path, "out[0] = values[0]")
    assert (done.returncode, "made" in done.stdout) == (0, True)
    folder = tmp_path / "tessel" / "kernels"
    (made,) = folder.glob("kernels.*")
    first = made.read_bytes()
    again = [sys.executable, str(folder / "build.py")]
    assert "as it should be" in subprocess.check_output(again, text=True)
    assert made.read_bytes() == first
    trial = folder / "trial.py"
    trial.write_text(trial.read_text().replace("values[0]", "values[0] + 1"))
    assert "made" in subprocess.check_output(again, text=True)
    assert made.read_bytes() != first
    tried = ctypes.CDLL(str(made))[f"trial__tried__{library.machine_level()}"]
    out = np.zeros(1)
    tried.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
    tried.restype = None
    tried(1, np.array([2.0]).ctypes.data, out.ctypes.data)
    assert out[0] == 3.0


def test_without_anything_that_links_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(build.KernelBuildError, match=r"install a C compiler .* `pip install zig"):
        build.find_linker()


def test_a_compiler_by_its_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setenv("CC", "ccache gcc")
    assert build.find_linker() == ["ccache", "gcc"]
    monkeypatch.delenv("CC")
    assert build.find_linker() == ["cc"]


def test_without_the_library_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "library_path", lambda: tmp_path / "kernels.nothing.so")
    library._library.cache_clear()
    try:
        with pytest.raises(ImportError, match="install Tessel from its source") as caught:
            library.digest()
    finally:
        library._library.cache_clear()
    assert platform.machine() in str(caught.value)


# --- declarations and calls -----------------------------------------------------------------------


@kernel(
    "values: V[n, 2], codes: C[n], up: i64, found: mut V[g], share: f64 -> bool",
    V="i32 f64",
    C="u8",
)
def _declared(values, codes, up, found, share):  # type: ignore[no-untyped-def]
    """Stand for a kernel."""


def test_what_is_declared() -> None:
    assert _declared.dims == ("n", "g")
    assert [each.type for each in _declared.arguments] == ["V", "C", "i64", "V", "f64"]
    assert [each.writes for each in _declared.arguments] == [False, False, False, True, False]
    assert _declared.arguments[0].dims == ("n", 2)
    assert _declared.result == "bool"
    assert _declared.combinations == [{"V": "i32", "C": "u8"}, {"V": "f64", "C": "u8"}]
    assert _declared.symbol({"V": "i32", "C": "u8"}, "v2") == "test_build___declared__i32__u8__v2"


@pytest.mark.parametrize("declared", ["values f64[n]", "values: f64[n", "a: f64[n]; b: i64"])
def test_what_declares_nothing(declared: str) -> None:
    with pytest.raises(ValueError, match="declares no argument"):
        kernel(declared)(lambda values: None)


GOOD = (
    np.zeros(5),
    np.zeros(2, np.int64),
    np.zeros(2, np.int64),
    3.0,
    False,
    np.zeros((2, 4)),
    np.zeros(2),
)
WRONG = [
    (0, np.zeros(5, np.float32), "values"),
    (0, np.zeros((5, 1)), "values"),
    (0, np.zeros(10)[::2], "values"),
    (0, [1.0, 2.0], "values"),
    (1, np.zeros(2, np.int32), "starts"),
    (2, np.zeros(3, np.int64), "stops"),
    (6, np.zeros(1), "found"),
    (6, np.frombuffer(bytes(16)), "found"),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("place", "value", "name"), WRONG)
def test_arguments_that_do_not_fit_reach_no_machine_code(
    level: str, place: int, value: object, name: str
) -> None:
    from tessel.kernels.window_rows import slide_sums

    given = list(GOOD)
    with in_form(level):
        slide_sums(*given)
        given[place] = value  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=f"^{name} of the kernel slide_sums is"):
            slide_sums(*given)


def test_types_of_a_letter_go_together() -> None:
    from tessel.kernels.window_rows import slide_best

    ends, line = np.zeros(2, np.int64), np.zeros(5, np.int64)
    slide_best(np.zeros(5), ends, ends, True, line, np.zeros(2))
    for numbers, found in (
        (np.zeros(5), np.zeros(2, np.int64)),
        (np.zeros(5, np.int64), np.zeros(2)),
        (np.zeros(5, np.float32), np.zeros(2, np.float32)),
    ):
        with pytest.raises(TypeError, match="slide_best"):
            slide_best(numbers, ends, ends, True, line, found)


def test_c_has_two_names_of_one_integer() -> None:
    from tessel.kernels.window_rows import slide_best

    for kind in ("l", "q"):
        numbers, found = np.array([3, 1], kind), np.zeros(1, kind)
        ends = np.array([0], kind), np.array([2], kind)
        if numbers.dtype == np.int64:
            slide_best(numbers, *ends, False, np.zeros(2, kind), found)
            assert found.tolist() == [1]


def test_a_cancelled_run_ends_at_a_kernel() -> None:
    from tessel.kernels.window_rows import rows_until

    flag = CancelFlag()
    flag.set()
    with flag.watched(), pytest.raises(CancelledError):
        rows_until(np.arange(3), np.arange(3), included=True)


def test_the_lowest_level_where_the_processor_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    library.machine_level.cache_clear()
    try:
        monkeypatch.setitem(sys.modules, "numpy._core._multiarray_umath", None)
        assert library.machine_level() == "v2"
    finally:
        library.machine_level.cache_clear()


def test_the_build_has_no_arrow() -> None:
    # pip builds where nothing is but what compiles; with a library at hand nothing is built.
    names = [f"tessel.kernels.{name}" for batch in build._batches() for name in batch]
    assert len(names) > 20
    code = "import sys, importlib; sys.modules['pyarrow'] = None\nfor name in sys.argv[1:]: "
    code += "importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
