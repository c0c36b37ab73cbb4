"""Connecting to Temporal: its own environment configuration, our data converter, an answer when it is not there."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from typing import Any

from temporalio.client import Client
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes
from temporalio.envconfig import ClientConfig

from counterfoil.models.errors import ErrorCode, Refusal, Unavailable
from counterfoil.workflows.lenient import LenientPayloadConverter

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_SECONDS = 10
USUAL_PLACE = "localhost:7233"


def data_converter(payload_key: bytes | None = None) -> DataConverter:
    """JSON through pydantic; encrypted where a key is given. Every party of a deployment needs the same key."""
    converter = replace(DataConverter.default, payload_converter_class=LenientPayloadConverter)
    if payload_key is None:
        return converter
    from counterfoil.control_plane.encryption import EncryptionCodec

    return replace(
        converter,
        payload_codec=EncryptionCodec(payload_key),
        # What an adapter raised may name what nobody else should read.
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


async def connect(
    *,
    address: str | None = None,
    payload_key: bytes | None = None,
    tries: int = 1,
    identity: str | None = None,
    usual_place: bool = True,
) -> Client:
    """A Temporal client by the environment (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, profiles, TLS).

    With `address` it is the embedded server's, which knows no TLS and one namespace: the environment is left aside.
    Where neither names a server, it is looked for at its `usual_place`, if that is allowed. Tries again with growing
    pauses; raises `Unavailable` (`TEMPORAL_UNAVAILABLE`) after `tries`, or `Refusal` (`SETTINGS_INVALID`).
    """
    options = _environment() if address is None else {"target_host": address}
    if usual_place:
        options.setdefault("target_host", USUAL_PLACE)
    elif "target_host" not in options:
        raise Unavailable(
            ErrorCode.TEMPORAL_UNAVAILABLE,
            "no stack runs on this state directory, and no other Temporal server is named",
            subject="temporal",
            remedy="`counterfoil dev` starts one here; or set TEMPORAL_ADDRESS",
        )
    if identity is not None:
        options["identity"] = identity
    for attempt in range(1, tries + 1):
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                return await Client.connect(**options, data_converter=data_converter(payload_key))
        except RuntimeError as error:
            reason = _reason(error)
        except TimeoutError:
            reason = f"no connection within {CONNECT_TIMEOUT_SECONDS} s"
        if attempt < tries:
            log.warning("Temporal at %s does not answer yet, trying again: %s", options["target_host"], reason)
            await asyncio.sleep(min(0.25 * 2**attempt, 5))
    raise Unavailable(
        ErrorCode.TEMPORAL_UNAVAILABLE,
        f"Temporal at {options['target_host']} does not answer: {reason}",
        subject=str(options["target_host"]),
        remedy="start it (`counterfoil dev` brings one), or set TEMPORAL_ADDRESS",
    )


def _environment() -> dict[str, Any]:
    try:
        options: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    except Exception as error:  # the SDK promises no type for a profile it cannot read
        raise Refusal(
            ErrorCode.SETTINGS_INVALID,
            f"Temporal's own configuration cannot be read: {error}"[:500],
            subject="temporal",
            remedy="correct the TEMPORAL_… variables, or the file TEMPORAL_CONFIG_FILE names",
        ) from error
    return options


def _reason(error: BaseException) -> str:
    """Why Temporal could not be reached, in one line: the SDK's own words carry the transport's internals."""
    told = str(error).splitlines()[0] if str(error) else type(error).__name__
    system = re.search(r'message: "([^"]+)" }', told)
    return (system.group(1) if system else told)[:200]
