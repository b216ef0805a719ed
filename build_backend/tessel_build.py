"""The build of Tessel's distributions (PEP 517): kernels are compiled, setuptools does the rest."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_BUILD = Path(__file__).resolve().parent.parent / "tessel" / "kernels" / "build.py"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what a build needs besides ``build-system.requires``: something that links."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_linker()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return what an editable install needs besides ``build-system.requires``."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_linker()]


def build_wheel(directory: str, config_settings: Any = None, metadata: str | None = None) -> str:
    """Build a wheel, with machine code of the kernels for this platform."""
    _compile_kernels()
    return build_meta.build_wheel(directory, config_settings, metadata)


def build_editable(directory: str, config_settings: Any = None, metadata: str | None = None) -> str:
    """Build what refers to this folder, and machine code of the kernels in it."""
    _compile_kernels()
    return build_meta.build_editable(directory, config_settings, metadata)


def _linker() -> list[str]:
    return ["ziglang"] if runpy.run_path(str(_BUILD))["c_compiler"]() is None else []


def _compile_kernels() -> None:
    done = subprocess.run([sys.executable, str(_BUILD)])
    if done.returncode:
        sys.exit("the kernels could not be compiled; what to do is said above")
