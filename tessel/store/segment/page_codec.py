"""Which codec a page gets, after its encoding: the smallest of a few ways, or none.

The column writer enters here. Integers packed to the bit leave a codec little to find, although the
high bytes of prices or gaps between instants repeat a lot. So a page of packed integers is also
tried with whole bytes, the bytes of one significance together (*byte planes*), which comes near the
entropy of the high ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tessel.store.encodings.base import Bytes, EncodedPage, Packing, Profile
from tessel.store.encodings.block_codec import compress_blocks
from tessel.store.encodings.codes import Codec, EncodingCode

__all__ = ["ChosenCodec", "choose_codec", "planes_codec", "whole_widths"]

ChosenCodec = tuple[Codec, Bytes]
"""A codec, and the stored bytes that it made."""

_BY_BYTES = {2: Codec.ZSTD_PLANES_2, 4: Codec.ZSTD_PLANES_4, 8: Codec.ZSTD_PLANES_8}

_FEWEST_BYTES = 1024
"""Of a page, to try byte planes: below, a frame a plane eats what is won."""


def whole_widths(profile: Profile) -> Profile:
    """Return the profile with integers in words, which have byte planes, not packed ones."""
    return replace(profile, packing=Packing.WORDS)


def planes_codec(encoded: EncodedPage, width: int) -> Codec | None:
    """Return the codec of byte planes that fits the elements of a page, or None.

    Parameters
    ----------
    width
        Bytes of a value of the column, which a flat page consists of.
    """
    if encoded.encoding == EncodingCode.FLAT:
        return _BY_BYTES.get(width)
    if encoded.encoding in (EncodingCode.VARIABLE, EncodingCode.CONSTANT):
        return None
    return _BY_BYTES.get(encoded.bit_width // 8) if encoded.bit_width % 8 == 0 else None


def choose_codec(
    payload: Bytes,
    profile: Profile,
    planes: Callable[[], tuple[Codec, Bytes] | None],
) -> tuple[ChosenCodec | None, bool]:
    """Return the codec for a page, and whether it is that of the byte planes.

    Parameters
    ----------
    payload
        The page as it was encoded.
    planes
        Makes another payload of the same values, and the codec of byte planes for it; None where
        there is none.

    Returns
    -------
    tuple
        None where no codec saves the fraction that the profile asks for.
    """
    if profile.codec == Codec.NONE or not len(payload):
        return None, False
    most = len(payload) * (1.0 - profile.codec_saving)
    plain = compress_blocks(payload, profile.codec)
    chosen = (profile.codec, plain) if len(plain) <= most else None
    tried = profile.codec == Codec.ZSTD and len(payload) >= _FEWEST_BYTES
    other = planes() if tried else None
    if other is None:
        return chosen, False
    codec, whole = other
    packed = compress_blocks(whole, codec)
    if len(packed) <= min(most, len(plain)):
        return (codec, packed), True
    return chosen, False
