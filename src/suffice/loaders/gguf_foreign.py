"""Names what a file is that is not GGUF, so that the message can say what to do."""

from __future__ import annotations

import struct
from typing import Final

SNIFF_BYTES: Final = 64

_LLAMA_CONVERT: Final = "convert it with llama.cpp's convert_hf_to_gguf.py"
_KNOWN: Final[tuple[tuple[bytes, str], ...]] = (
    (b"tjgg", "an old GGML file (ggjt); get the GGUF version of the model"),
    (b"lmgg", "an old GGML file; get the GGUF version of the model"),
    (b"fmgg", "an old GGML file (ggmf); get the GGUF version of the model"),
    (b"algg", "a GGML adapter (ggla); name the base model's GGUF file"),
    (b"ggjt", "an old GGML file (ggjt); get the GGUF version of the model"),
    (b"ggml", "an old GGML file; get the GGUF version of the model"),
    (b"PK\x03\x04", f"a zip archive, perhaps a PyTorch checkpoint; unpack it or {_LLAMA_CONVERT}"),
    (b"\x80\x02", f"a Python pickle, perhaps a PyTorch checkpoint; {_LLAMA_CONVERT}"),
    (b"version https://git-lfs", "a git-lfs pointer, not the model itself; run git lfs pull"),
    (b"\x1f\x8b", "a gzip archive; unpack it"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it"),
    (b"\x00" * 16, "zeros at its start, as a download has that was not finished; download it again"),
)


def describe_foreign(start: bytes, file_bytes: int) -> str:
    """What a file that starts with ``start`` (the first SNIFF_BYTES bytes) is, and what to do: ``"an old GGML file; get ..."``."""
    for magic, description in _KNOWN:
        if start.startswith(magic):
            return description
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "a web page, as a failed download leaves; download the model again, logged in if it needs that"
    if text.startswith((b"{", b"[")):
        return "a JSON text, perhaps a server's error message; download the model again"
    if _looks_like_safetensors(start, file_bytes):
        return f"a safetensors file; {_LLAMA_CONVERT}"
    return "no model format that suffice knows; name a .gguf file"


_LENGTH_BYTES = 8


def _looks_like_safetensors(start: bytes, file_bytes: int) -> bool:
    """Eight bytes of header length, little endian, then a JSON object."""
    if start[_LENGTH_BYTES : _LENGTH_BYTES + 1] != b"{":
        return False
    (header_bytes,) = struct.unpack_from("<Q", start)
    return bool(header_bytes <= file_bytes)
