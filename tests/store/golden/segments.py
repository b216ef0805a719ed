"""Golden segments: one of each sample, with its values beside it in Arrow's own file format.

``python -m tests.store.golden.segments FILE.tar.xz`` makes them, once for each version of the
format. The samples have every encoding, codec and profile between them; they may change later, the
archive does not.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pyarrow as pa

from tests.store.segment.samples import SAMPLES

__all__ = ["golden_segments"]


def golden_segments(archive: Path) -> dict[str, tuple[bytes, pa.Table]]:
    """Return the bytes and the values of each segment of an archive, by name."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive) as held:
        for member in held:
            file = held.extractfile(member)
            assert file is not None
            files[member.name] = file.read()
    names = {Path(name).stem for name in files}
    return {
        name: (files[f"{name}.segment"], pa.ipc.open_file(files[f"{name}.arrow"]).read_all())
        for name in sorted(names)
    }


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    facts = tarfile.TarInfo(name)
    facts.size = len(data)
    archive.addfile(facts, io.BytesIO(data))


if __name__ == "__main__":
    with tarfile.open(sys.argv[1], "w:xz", format=tarfile.USTAR_FORMAT) as into:
        for sample in SAMPLES:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, sample.table.schema) as writer:
                writer.write_table(sample.table)
            _add(into, f"{sample.name}.segment", sample.data)
            _add(into, f"{sample.name}.arrow", sink.getvalue().to_pybytes())
