"""Where numba keeps what it compiled; the only module besides the kernels that imports numba.

numba's own cache raises where a file of it is damaged or cannot be written. Here such a file is
one that is not there: the code is made anew, and kept if it can be.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target

__all__ = ["keep_code", "made_for"]

_logger = logging.getLogger("tessel")


class _KeptCode(FunctionCache):  # type: ignore[misc]
    """The cache of one function; what goes wrong with it is told to the log and to no query."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _logger.info("machine code in %s cannot be read: %r", self.cache_path, error)
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _logger.info("machine code cannot be kept in %s: %r", self.cache_path, error)


def keep_code(dispatcher: Any, directory: Path) -> None:
    """Have a compiled function's machine code kept in a directory, where that works."""
    before = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(directory)
        dispatcher._cache = _KeptCode(dispatcher.py_func)
    except (OSError, RuntimeError) as error:
        _logger.info("machine code cannot be kept in %s: %r", directory, error)
    finally:
        # Other users of numba in the process have a directory of their own.
        numba.config.CACHE_DIR = before


def made_for() -> str:
    """Return a digest of what machine code depends on besides the sources: numba, and the CPU."""
    machine = cpu_target.target_context.codegen().magic_tuple()
    compiled = Path(__file__).parent / "compiled"
    # Older ones of numba take a file that was written anew for a changed one.
    written = [os.stat(source).st_mtime_ns for source in sorted(compiled.glob("*.py"))]
    held = repr((numba.__version__, machine, str(compiled), written))
    return hashlib.blake2b(held.encode(), digest_size=8).hexdigest()
