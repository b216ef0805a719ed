"""Make the machine code of all kernels: ``python tessel/kernels/build.py``, or ``make kernels``.

numba lowers each kernel to LLVM's intermediate representation, once; LLVM makes machine code of it
for each level of processors; the compiler of the machine, or ``ziglang``, links one shared library,
which needs neither Python nor numba nor a C library. Nothing of this is imported at run time.

What cannot be in a kernel (exceptions, memory of its own, functions of a C library) is refused
here, with the kernel's name.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import hashlib
import importlib
import importlib.util
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass  # it runs where the package is not installed yet
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessel.kernels.declare import Kernel

_FOLDER = Path(__file__).resolve().parent
_NO_KERNELS = frozenset({"__init__", "build", "declare", "intrinsics", "library", "lowering"})
_SETTINGS = {"NUMBA_OPT": "0", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
"""numba only lowers: the same for all levels, and LLVM optimises it once a level."""

_PROCESSORS = {
    "v2": ("x86-64-v2", "x86_64"),
    "v3": ("x86-64-v3", "x86_64"),
    "arm64": ("generic", "aarch64"),
}
_WITH_FMA = frozenset({"v3", "arm64"})
_ALLOWED = re.compile(r"llvm\.|mem(cpy|set|move)$")
_OF_LIBM = re.compile(r"llvm\.(exp|exp2|log|log2|log10|pow|powi|sin|cos|tan)\.")


@dataclass(frozen=True)
class _Lowered:
    """A kernel for some types, as numba gives it: LLVM's text, and the function in it."""

    kernel: Kernel
    combination: Mapping[str, str]
    text: str
    function: str


class KernelBuildError(Exception):
    """A kernel that cannot be compiled as it is, or a library that cannot be linked."""


def digest_of_sources() -> str:
    """Return the digest of everything that machine code is made of."""
    made = hashlib.sha256(platform.machine().encode())
    for path in sorted(_FOLDER.glob("*.py")):
        made.update(path.name.encode() + path.read_bytes())
    return made.hexdigest()


def c_compiler() -> list[str] | None:
    """Return the command of the C compiler of this machine; None where there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    return None


def find_linker() -> list[str]:
    """Return the command of a C compiler that links, of the machine or of ``ziglang``.

    Raises
    ------
    KernelBuildError
        Where there is none.
    """
    found = c_compiler()
    if found is not None:
        return found
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise KernelBuildError(
        "the kernels cannot be linked: install a C compiler (gcc, clang) or "
        "`pip install ziglang`, and build again"
    )


def build(target: Path, *, force: bool = False) -> bool:
    """Make the library, unless it is there and made of these sources; return whether it was made.

    Raises
    ------
    KernelBuildError
        Where a kernel says what machine code cannot, or nothing links.
    """
    sources = digest_of_sources()
    if not force and target.exists() and sources.encode() in target.read_bytes():
        return False
    linker = find_linker()
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ProcessPoolExecutor(
            min(len(_batches()), os.cpu_count() or 1),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_prepare,
        ) as pool:
            numbered = [Path(folder) / f"{number}.o" for number in range(len(_batches()))]
            made = pool.map(_objects, _batches(), numbered)
            objects = [path for paths in made for path in paths]
        objects.append(_digest_object(Path(folder), sources))
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        command = [
            *linker,
            "-shared",
            "-nostdlib",
            *_link_options(),
            "-o",
            str(beside),
            *map(str, objects),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise KernelBuildError(f"the kernels cannot be linked: {done.stderr.strip()}")
        os.replace(beside, target)
    return True


def _link_options() -> list[str]:
    return [] if sys.platform == "darwin" else ["-Wl,-s"]


def _prepare() -> None:
    """Make this process one that compiles: kernels are imported without the package around them."""
    os.environ.update(_SETTINGS)
    for name in ("tessel", "tessel.kernels"):
        package = types.ModuleType(name)
        package.__path__ = [str(_FOLDER if "." in name else _FOLDER.parent)]
        sys.modules[name] = package
    from tessel.kernels import lowering
    from tessel.kernels.declare import compiling_inner

    lowering.install()
    compiling_inner(lowering.compile_inner)


def _refuse_another_tree() -> None:
    """See that the kernels, and all that they import, are of this tree and of no installed one."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.startswith("tessel.") and path and _FOLDER.parent not in Path(path).parents:
            raise KernelBuildError(f"{name} was found at {path}, not in {_FOLDER.parent}")


def _objects(names: Sequence[str], path: Path) -> list[Path]:
    """Compile the kernels of some modules; return the paths of object files, one a level."""
    from tessel.kernels.declare import Kernel
    from tessel.kernels.library import machine_levels

    lowered: list[_Lowered] = []
    for name in names:
        module = importlib.import_module(f"tessel.kernels.{name}")
        for each in vars(module).values():
            if isinstance(each, Kernel) and each.module == module.__name__:
                lowered += [_lowered(each, combination) for combination in each.combinations]
    _refuse_another_tree()
    made: list[Path] = []
    for level in machine_levels():
        made.append(path.with_suffix(f".{level}.o"))
        made[-1].write_bytes(_machine_code(lowered, level))
    return made


def _lowered(kernel: Kernel, combination: Mapping[str, str]) -> _Lowered:
    """Return the representation of a kernel for some types."""
    import numba

    from tessel.kernels.declare import TYPES
    from tessel.kernels.lowering import as_array, compile_inner

    kinds = kernel.types_of(combination)
    names: dict[str, Any] = {"as_array": as_array, "run": compile_inner(kernel.python)}
    given, signature = list(kernel.dims), [numba.types.int64] * len(kernel.dims)
    values = []
    for number, (kind, each) in enumerate(zip(kinds, kernel.arguments, strict=True)):
        given.append(f"argument_{number}")
        if each.dims is None:
            signature.append(numba.from_dtype(TYPES[kind]))
            values.append(f"argument_{number}")
        else:
            signature.append(numba.types.voidptr)
            dims = "".join(f"{dim}, " for dim in each.dims)
            names[f"type_{number}"] = TYPES[kind].type
            values.append(f"as_array(argument_{number}, ({dims}), type_{number})")
    source = f"def entry({', '.join(given)}):\n    return run({', '.join(values)})\n"
    exec(source, names)
    result = numba.types.void if kernel.result is None else numba.from_dtype(TYPES[kernel.result])
    try:
        made = numba.cfunc(result(*signature), error_model="numpy", _nrt=False)(names["entry"])
        return _Lowered(
            kernel, combination, made.inspect_llvm(), made.native_name.removeprefix("cfunc.")
        )
    except Exception as error:  # numba's own errors, and assertions inside of it
        raise KernelBuildError(
            f"{kernel.module}.{kernel.name} cannot be compiled: {error!r}"
        ) from None


def _machine_code(lowered: Sequence[_Lowered], level: str) -> bytes:
    """Make an object file of kernels for a level of processors.

    They are one module for LLVM, so that it makes code once of what several of them call.
    """
    from llvmlite import binding

    _begin()
    processor, architecture = _PROCESSORS[level]
    module = binding.parse_assembly("")
    for each in lowered:
        module.link_in(binding.parse_assembly(_with_entry(each, level)))
    kernels = {each.kernel.symbol(each.combination, level): each.kernel for each in lowered}
    entered = {each.function for each in lowered}
    for function in module.functions:
        if not function.is_declaration and function.name not in kernels:
            function.linkage = "internal"
        if function.name in entered:
            function.add_function_attribute("alwaysinline")
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    triple = binding.get_default_triple()
    machine = binding.Target.from_triple(triple).create_target_machine(
        cpu=processor, opt=3, reloc="pic", codemodel="default"
    )
    if architecture not in triple and not triple.startswith("arm64"):
        raise KernelBuildError(f"machine code for {architecture} cannot be made on {triple}")
    tuning = binding.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    tuning.loop_interleaving = tuning.loop_unrolling = True
    binding.create_pass_builder(machine, tuning).getModulePassManager().run(
        module, binding.create_pass_builder(machine, tuning)
    )
    _refuse_what_needs_others(kernels, module, level)
    code: bytes = machine.emit_object(module)
    return code


def _begin() -> None:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _with_entry(lowered: _Lowered, level: str) -> str:
    """Add our own entry: without the status of numba's functions, and what a level has.

    numba's functions return a status and take a place for their result and one for an exception.
    """
    from tessel.kernels.lowering import HAS_FMA

    kernel, symbol = lowered.kernel, lowered.kernel.symbol(lowered.combination, level)
    given, kinds = ["i64"] * len(kernel.dims), kernel.types_of(lowered.combination)
    for kind, each in zip(kinds, kernel.arguments, strict=True):
        given.append("ptr" if each.dims is not None else _llvm_type(kind))
    result = None if kernel.result is None else _llvm_type(kernel.result)
    listed = "".join(f", {kind} %a{number}" for number, kind in enumerate(given))
    back = (
        "ret void"
        if result is None
        else f"%value = load {result}, ptr %place\n  ret {result} %value"
    )
    text = re.sub(
        f"^@{HAS_FMA} = .*$",
        f"@{HAS_FMA} = internal constant i8 {int(level in _WITH_FMA)}",
        lowered.text,
        flags=re.M,
    )
    # A square root is one instruction; the function of that name in C libraries sets errno as well.
    text = text.replace("@sqrt(", "@llvm.sqrt.f64(")
    return f"""{text}
declare void @kernel_raises()
define {result or "void"} @{symbol}({listed.removeprefix(", ")}) {{
  %place = alloca {result or "ptr"}
  %raised = alloca ptr
  %status = call i32 @"{lowered.function}"(ptr %place, ptr %raised{listed})
  %fine = icmp eq i32 %status, 0
  %none = icmp eq i32 %status, -2
  %well = or i1 %fine, %none
  br i1 %well, label %end, label %bad
bad:
  call void @kernel_raises()
  unreachable
end:
  {back}
}}
"""


def _llvm_type(kind: str) -> str:
    return {"bool": "i8", "f32": "float", "f64": "double"}.get(kind, f"i{kind[1:]}")


def _refuse_what_needs_others(kernels: Mapping[str, Kernel], module: Any, level: str) -> None:
    """Refuse machine code that raises, allocates, or calls a C library."""
    for function in module.functions:
        if function.is_declaration:
            continue
        # Of what several kernels call the mangled name says the module and the function.
        name = repr(kernels.get(function.name, function.name))
        for called in sorted(set(re.findall(r"call [^@\n]*@\"?([\w.]+)", str(function)))):
            if called == "kernel_raises":
                raise KernelBuildError(f"{name} raises an exception, which no kernel can")
            missing = called.startswith("llvm.fma") and level not in _WITH_FMA
            is_here = _ALLOWED.match(called) or not module.get_function(called).is_declaration
            if missing or _OF_LIBM.match(called) or not is_here:
                raise KernelBuildError(f"{name} calls {called}, which no library here has")


def _digest_object(folder: Path, sources: str) -> Path:
    from llvmlite import binding

    _begin()
    size = len(sources) + 1
    module = binding.parse_assembly(f'@sources = constant [{size} x i8] c"{sources}\\00"')
    machine = binding.Target.from_default_triple().create_target_machine(
        opt=0, reloc="pic", codemodel="default"
    )
    path = folder / "sources.o"
    path.write_bytes(machine.emit_object(module))
    return path


@functools.cache
def _batches() -> list[list[str]]:
    """Return the modules that declare kernels: those on the block loop, and all others."""
    batches: tuple[list[str], list[str]] = ([], [])
    for path in sorted(_FOLDER.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.stem not in _NO_KERNELS and "@kernel(" in source:
            batches["block_loop" not in source].append(path.stem)
    return [batch for batch in batches if batch]


def main() -> int:
    """Make the library where the package looks for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--force", action="store_true", help="although it is made of these sources")
    options = parser.parse_args()
    sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != _FOLDER]
    spec = importlib.util.spec_from_file_location("kernel_library", _FOLDER / "library.py")
    assert spec is not None
    assert spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    path: Path = library.library_path()
    try:
        print(f"{path.name}: {'made' if build(path, force=options.force) else 'as it should be'}")
    except KernelBuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
