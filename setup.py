"""What pyproject.toml cannot say: wheels hold machine code, but know no version of Python."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

sys.path.insert(0, str(Path(__file__).parent / "build_backend"))
from project_address import published


class _WithMachineCode(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class _ForAnyPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


text, urls = published(Path(__file__).parent)
setup(
    distclass=_WithMachineCode,
    cmdclass={"bdist_wheel": _ForAnyPython},
    long_description=text,
    long_description_content_type="text/markdown",
    project_urls=urls,
)
