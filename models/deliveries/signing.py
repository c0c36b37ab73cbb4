"""The seal of a callback, as Standard Webhooks has it: HMAC-SHA256 over its id, when it was sent, and its body.

Any library of that specification verifies it; so do the ten lines in docs/callbacks.md, and `verify_callback`.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from pydantic import ValidationError

from counterfoil.models.common import Clock, utc_now
from counterfoil.models.deliveries.contract import Callback
from counterfoil.models.errors import ErrorCode, Refusal, what_is_wrong

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"
TOLERANCE_SECONDS = 300


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: `v1,` and base64. `timestamp` is in seconds since the epoch."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(key, signed, sha256)).decode()


def verify_callback(key: bytes, headers: Mapping[str, str], body: bytes, *, clock: Clock = utc_now) -> Callback:
    """The callback that was received, if whoever holds `key` sent it lately.

    `headers` are those of the request, in any case; `body` is what was received, byte for byte. Raises `Refusal`
    (`FORGED_CALLBACK`). A genuine one may come twice: remember its `webhook-id`, or compare `version`.
    """
    given = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at = given.get(ID_HEADER, ""), given.get(TIMESTAMP_HEADER, "")
    if not (message_id and sent_at.isascii() and sent_at.isdigit() and len(sent_at) < 20):
        raise _refused("it lacks an id, or the time it was sent at")
    expected = signature(key, message_id, int(sent_at), body).encode()
    if not any(hmac.compare_digest(expected, one.encode()) for one in given.get(SIGNATURE_HEADER, "").split()):
        raise _refused("no signature fits it")
    if abs(clock().timestamp() - int(sent_at)) > TOLERANCE_SECONDS:
        raise _refused(f"it was not sent within {TOLERANCE_SECONDS} s of now")
    try:
        return Callback.model_validate_json(body)
    except ValidationError as error:
        raise _refused(what_is_wrong(error, "callback")) from None


def _refused(why: str) -> Refusal:
    return Refusal(
        ErrorCode.FORGED_CALLBACK,
        f"this is no callback to believe: {why}",
        subject="callback",
        remedy="give both sides the same key and a right clock, and verify the body exactly as it was received",
    )
