"""What writers attach to symbols and commits: plain JSON that comes back as it was given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tessel.errors import InvalidInputError, UnicodeTextError

_HINT = "use text, numbers, booleans, None, lists and dictionaries with text keys"


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as they will come back; ``InvalidInputError`` where they would not."""
    if metadata is None:
        return {}
    try:
        # Not escaped, so that halves of surrogate pairs show.
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        found: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        told = f"the metadata of a symbol are plain JSON: {error}"
        raise InvalidInputError(told, hint=_HINT) from error
    UnicodeTextError.require(text, "the JSON of the metadata")
    if found != dict(metadata):
        told = "the metadata of a symbol would not come back as they are"
        raise InvalidInputError(told, hint=_HINT)
    return found
