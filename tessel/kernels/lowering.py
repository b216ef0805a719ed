"""The intrinsics of kernels for numba; imported by the build alone.

`install` puts them in the place of the functions that sources name.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from tessel.kernels import intrinsics

HAS_FMA = "kernel_has_fma"
"""An external constant, one byte; each level's machine code defines it, and drops a branch."""

# numba asks its engine for the address of everything, although nothing of this runs in the build.
_address = ctypes.c_uint8()
binding.add_symbol(HAS_FMA, ctypes.addressof(_address))


compile_inner = njit(
    error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
"""Compiles what only compiled functions call: it cannot allocate, and rounds as IEEE 754 says."""


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _has_fma(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8)
        constant = builder.module.globals.get(HAS_FMA)
        if constant is None:
            constant = ir.GlobalVariable(builder.module, byte, HAS_FMA)
        return builder.icmp_unsigned("!=", builder.load(constant), byte(0))

    return types.boolean(), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _reinterpret(typing_context: Any, array: Any, dtype: Any) -> Any:
    # Said to be aligned, as kernels choose between such arrays and others. Processors do not mind.
    made = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(array)(context, builder, arguments[0])
        octets = builder.mul(given.nitems, given.itemsize)
        size = context.get_abi_sizeof(context.get_data_type(dtype.dtype))
        length = builder.udiv(octets, octets.type(size))
        return _array(context, builder, made, given.data, [length], [length.type(size)])

    return made(array, dtype), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _words_of(typing_context: Any, octets: Any) -> Any:
    made = types.Array(types.uint64, 1, "A", aligned=False)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(octets)(context, builder, arguments[0])
        seven = given.nitems.type(7)
        fits = builder.icmp_signed(">", given.nitems, seven)
        length = builder.select(fits, builder.sub(given.nitems, seven), given.nitems.type(0))
        return _array(context, builder, made, given.data, [length], [length.type(1)])

    return made(octets), generate


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def as_array(typing_context: Any, address: Any, dims: Any, dtype: Any) -> Any:
    """Return the numbers at an address as an array, its rows one behind the other."""
    made = types.Array(dtype.dtype, len(dims), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = cgutils.unpack_tuple(builder, arguments[1])
        size = context.get_abi_sizeof(context.get_data_type(dtype.dtype))
        strides: list[Any] = []
        step = shape[0].type(size)
        for length in reversed(shape):
            strides.insert(0, step)
            step = builder.mul(step, length)
        return _array(context, builder, made, arguments[0], shape, strides)

    return made(address, dims, dtype), generate


def _array(
    context: Any, builder: Any, made: Any, data: Any, shape: list[Any], strides: list[Any]
) -> Any:
    """Make an array that owns nothing."""
    array = context.make_array(made)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(made.dtype))
    arrayobj.populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=shape[0].type(size),
        meminfo=None,
        parent=None,
    )
    return array._getvalue()


def install() -> None:
    """Put what numba generates in the place of the intrinsics, before any kernel is imported.

    They are replaced, not overloaded: a function without memory of its own cannot return an array.
    """
    intrinsics.fused_multiply_add = _fma
    intrinsics.has_fma = _has_fma
    intrinsics.reinterpret = _reinterpret
    intrinsics.words_of = _words_of
