"""How the objects of a store are named; nothing that users type ever becomes part of a name.

::

    store.json               what the store is: written once, at create
    log/<bucket>/<entry>     one entry per commit, named so that listing gives the newest first
    leaf/<id>                nodes of the symbol index that one commit wrote
    refs/<id>                branches and tags
    man/<id>                 manifests
    seg/<xx>/<id>            segments
    lease/<id>               what long sessions need to be left alone
"""

from __future__ import annotations

import re

from tessel.errors import (
    InvalidInputError,
    RefNameError,
    SymbolNameError,
    UnicodeTextError,
    shown,
)

STORE = "store.json"
LOG = "log/"
LEASES = "lease/"

_NAME_BYTES = 1024
_REF_CHARACTERS = 200
_LAST_NUMBER = 10**12 - 1
_BUCKET_DIGITS = 9
_LOG_NAME = re.compile(r"log/([0-9]{9})/([0-9]{3})")
_REF_NAME = re.compile(r"(?!\d+$)\w[\w./-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OTHER_NAME = re.compile(r"(leaf|refs|man|lease)/([0-9a-f]{32})")
_SEGMENT_NAME = re.compile(r"seg/([0-9a-f]{2})/(\1[0-9a-f]{30})")


def new_id() -> bytes:
    """Return a fresh random identifier: 16 bytes from the operating system."""
    import secrets

    return secrets.token_bytes(16)


def new_name(kind: str) -> str:
    """Return a fresh random name of an object of a kind: ``man``, ``leaf``, ``refs``, ``lease``."""
    return f"{kind}/{new_id().hex()}"


def segment_name(identifier: bytes) -> str:
    """Return the name of the segment object with this identifier."""
    text = identifier.hex()
    return f"seg/{text[:2]}/{text}"


def segment_id(name: str) -> bytes | None:
    """Return the identifier of a segment object, or None if the name is not one."""
    match = _SEGMENT_NAME.fullmatch(name)
    return bytes.fromhex(match[2]) if match else None


def object_kind(name: str) -> str | None:
    """Return what an object is, as the first part of its name says; None for no object of a store.

    One of ``"store"``, ``"log"``, ``"leaf"``, ``"refs"``, ``"man"``, ``"seg"``, ``"lease"``.
    """
    if name == STORE:
        return "store"
    if log_number(name) is not None:
        return "log"
    if segment_id(name) is not None:
        return "seg"
    match = _OTHER_NAME.fullmatch(name)
    return match[1] if match else None


def log_name(number: int) -> str:
    """Return the name of the log entry of commit ``number``.

    The digits count down, so that sorted names begin with the newest commit and a listing of one
    name finds it; a bucket is a folder of a thousand entries.
    """
    digits = f"{_LAST_NUMBER - number:012d}"
    return f"{LOG}{digits[:_BUCKET_DIGITS]}/{digits[_BUCKET_DIGITS:]}"


def log_number(name: str) -> int | None:
    """Return the commit number of a log entry's name, or None if the name is not one."""
    match = _LOG_NAME.fullmatch(name)
    return _LAST_NUMBER - int(match[1] + match[2]) if match else None


def check_symbol_name(name: object) -> str:
    """Return ``name`` if it can name a symbol; raise ``SymbolNameError`` otherwise.

    Any text of 1 to 1,024 bytes of UTF-8 without control characters can: names never become paths.
    """
    if not isinstance(name, str):
        raise SymbolNameError(
            "the name of a symbol is text, not "
            + (shown(name) if isinstance(name, int) else type(name).__name__),
            hint='the name comes first: write("trades", table), read("trades"); of several: '
            'read_many(["trades", "quotes"])',
        )
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise SymbolNameError(f"{name!r} cannot name a symbol: {error.reason}") from error
    if not 0 < size <= _NAME_BYTES or _CONTROL.search(name):
        raise SymbolNameError(
            f"{name[:40]!r} cannot name a symbol",
            hint=f"a name has 1 to {_NAME_BYTES} bytes of UTF-8 and no control characters",
        )
    return name


def check_ref_name(name: object) -> str:
    """Return ``name`` if it can name a branch or a tag; raise ``RefNameError`` otherwise.

    Letters and digits of any script, ``_ . - /``; it does not begin with a mark, and is not a
    number, so that it is never taken for a version.
    """
    if not isinstance(name, str):
        raise RefNameError(f"the name of a branch or tag is text, not {name!r}")
    if len(name) > _REF_CHARACTERS or _REF_NAME.fullmatch(name) is None:
        raise RefNameError(
            f"{name[:40]!r} cannot name a branch or tag",
            hint=f"1 to {_REF_CHARACTERS} letters, digits and _ . - / that begin with a letter, "
            "digit or _ and are not all digits",
        )
    return name


def check_new_ref_name(name: str) -> str:
    """Return ``name`` if it can name a new branch or tag; raise ``RefNameError`` otherwise.

    No part of it is empty, ``.`` or ``..``, which read as a path to another name. Stores have had
    such names, and those can still be read and deleted.
    """
    if not {"", ".", ".."}.isdisjoint(check_ref_name(name).split("/")):
        raise RefNameError(
            f"{name[:40]!r} cannot name a branch or tag",
            hint="no part between slashes is empty, '.' or '..'",
        )
    return name


def check_message(message: object) -> str:
    """Return the message of a commit; raise ``InvalidInputError`` if UTF-8 cannot hold it.

    The log is JSON, which can hold half of a surrogate pair; tables and terminals cannot show it.
    """
    if not isinstance(message, str):
        raise InvalidInputError(f"the message of a commit is text, not {shown(message)}")
    UnicodeTextError.require(message, "the message of a commit")
    return message
