"""Connecting to Temporal: its own environment configuration, our data converter, an answer when it is not there."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig

from counterfoil.control_plane.encryption import EncryptionCodec
from counterfoil.models.errors import ErrorCode, Unavailable
from counterfoil.workflows.lenient import LenientPayloadConverter

log = logging.getLogger(__name__)


def data_converter(payload_key: bytes | None = None) -> DataConverter:
    """JSON through pydantic; encrypted where a key is given. Every party of a deployment needs the same key."""
    codec = None if payload_key is None else EncryptionCodec(payload_key)
    return replace(DataConverter.default, payload_converter_class=LenientPayloadConverter, payload_codec=codec)


async def connect(
    *, address: str | None = None, payload_key: bytes | None = None, tries: int = 1, identity: str | None = None
) -> Client:
    """A Temporal client by the environment (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, profiles, TLS), or `address`.

    Tries again with growing pauses; raises `Unavailable` (`TEMPORAL_UNAVAILABLE`) after `tries`.
    """
    options: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    if address is not None:
        options["target_host"] = address
    options.setdefault("target_host", "localhost:7233")
    if identity is not None:
        options["identity"] = identity
    for attempt in range(1, tries + 1):
        try:
            return await Client.connect(**options, data_converter=data_converter(payload_key))
        except RuntimeError as error:
            reason = str(error).splitlines()[0][:200]
        if attempt < tries:
            log.warning("Temporal at %s does not answer yet, trying again: %s", options["target_host"], reason)
            await asyncio.sleep(min(0.25 * 2**attempt, 5))
    raise Unavailable(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        f"Temporal at {options['target_host']} does not answer: {reason}",
        subject=str(options["target_host"]),
        remedy="start it (`counterfoil dev` brings one), or set TEMPORAL_ADDRESS",
    )
