"""Answer queries: JSON lines in, one line each out. It runs in either version, and imports no test.

In: ``{"store": folder, "query": plan, "options": {...}}``, of the symbol ``x``. Out: digest of the
bytes of the answer, its schema and rows; or an error's type, message, clause and row.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tessel as ts


def answered(store: ts.Store, plan: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return what one query on the symbol ``x`` gives."""
    query = ts.QueryBuilder.from_json(plan)
    try:
        with ts.options(**options):
            table = store.read("x", query=query).to_arrow()
    except ts.errors.TesselError as error:
        told = {name: str(getattr(error, name, None)) for name in ("message", "hint", "clause")}
        return {"error": type(error).__name__, **told}
    digest = hashlib.sha256()
    for name in table.column_names:
        _digest(pa.chunked_array(table.column(name)).combine_chunks(), digest)
    return {
        "schema": str(table.schema.remove_metadata()),
        "rows": len(table),
        "digest": digest.hexdigest(),
    }


def _digest(array: pa.Array, digest: Any) -> None:
    """Add what an array means to a digest: bits of values that are there, and where there are none.

    What stands in the place of a missing value means nothing, nor does where a text begins.
    """
    if isinstance(array.type, pa.DictionaryType | pa.RunEndEncodedType):
        array = pc.run_end_decode(array) if pa.types.is_run_end_encoded(array.type) else array
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    digest.update(array.is_valid().to_numpy(zero_copy_only=False).tobytes())
    held = array.drop_null()
    if pa.types.is_nested(array.type):
        digest.update(repr(held.to_pylist()).encode())
    elif pa.types.is_boolean(array.type):
        digest.update(held.to_numpy(zero_copy_only=False).tobytes())
    elif pa.types.is_fixed_size_binary(array.type) or held.type.num_buffers == 2:
        width = held.type.byte_width
        data = held.buffers()[1]
        octets = b"" if data is None else data.to_pybytes()
        digest.update(octets[held.offset * width : (held.offset + len(held)) * width])
    else:
        digest.update(repr(held.to_pylist()).encode())


def main() -> None:
    print(json.dumps({"tessel": ts.__file__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        store = ts.open(asked["store"], read_only=True)
        print(json.dumps(answered(store, asked["query"], asked["options"])), flush=True)


if __name__ == "__main__":
    main()
