"""Keys by reference: settings name where a key is (`env:NAME`, `file:/path`), never the key itself."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from counterfoil.models.errors import ErrorCode, Refusal

KEY_BYTES_MINIMUM = 16


def resolve_key(reference: str | None) -> bytes | None:
    """The key a reference names: hexadecimal text, as its bytes. Raises `Refusal` (`SETTINGS_INVALID`)."""
    if not reference:
        return None
    kind, _, place = reference.partition(":")
    if kind == "env":
        text = os.environ.get(place)
    elif kind == "file":
        text = Path(place).read_text() if Path(place).is_file() else None
    else:
        raise _invalid(reference, "a key reference is env:NAME or file:/path")
    if text is None:
        raise _invalid(reference, "there is nothing at that place")
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        raise _invalid(reference, "a key is written in hexadecimal") from None
    if len(key) < KEY_BYTES_MINIMUM:
        raise _invalid(reference, f"a key has at least {KEY_BYTES_MINIMUM} bytes")
    return key


def ensure_key_file(path: Path) -> str:
    """A reference to a key file that only its owner can read; written on first use."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return f"file:{path}"


def _invalid(reference: str, detail: str) -> Refusal:
    return Refusal(
        ErrorCode.SETTINGS_INVALID,
        f"no key can be had from '{reference}': {detail}",
        subject=reference,
        remedy="make one with: python -c 'import secrets; print(secrets.token_hex(32))'",
    )
