"""Payload encryption for Temporal: AES-256-GCM under one key, so histories are unreadable without it.

Payloads that are not encrypted pass through (a person's bare signal), and one that cannot be decrypted is left as it
is, so that it is refused where it is read instead of wedging the workflow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

ENCODING = b"binary/encrypted"
NONCE_BYTES = 12


class EncryptionCodec(PayloadCodec):
    """Encrypts whole payloads, their metadata included."""

    def __init__(self, key: bytes) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"counterfoil payloads").derive(key)
        self._cipher = AESGCM(derived)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._decrypted(payload) for payload in payloads]

    def _encrypted(self, payload: Payload) -> Payload:
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, payload.SerializeToString(), ENCODING)
        return Payload(metadata={"encoding": ENCODING}, data=nonce + sealed)

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        try:
            plain = self._cipher.decrypt(payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:], ENCODING)
        except (InvalidTag, ValueError):
            return payload
        return Payload.FromString(plain)
