"""What pyproject.toml cannot say: wheels hold machine code, but know no version of Python."""

from __future__ import annotations

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class _WithMachineCode(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class _ForAnyPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(distclass=_WithMachineCode, cmdclass={"bdist_wheel": _ForAnyPython})
