"""What is signed is verified, by this code and by the specification's own example; what is not is refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.models.deliveries.contract import Callback
from counterfoil.models.deliveries.signing import signature, verify_callback
from counterfoil.models.errors import ErrorCode, Refusal

KEY = bytes(range(32))
SENT_AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
BODY = (
    b'{"type":"operation.settled","timestamp":"2026-07-01T11:59:59Z","operation_id":"op-1","workspace":"w",'
    b'"session":"s","capability":"record.update","route_id":"scripted.v1","state":"completed",'
    b'"verification":"verified","cancellation":"none","revision":4,"version":6}'
)


def headers(**changes: str) -> dict[str, str]:
    sent_at = int(SENT_AT.timestamp())
    signed = signature(KEY, "op-1-6", sent_at, BODY)
    return {"webhook-id": "op-1-6", "webhook-timestamp": str(sent_at), "webhook-signature": signed} | {
        name.replace("_", "-"): value for name, value in changes.items()
    }


def at(moment: datetime):
    return lambda: moment


def test_the_signature_is_the_one_of_standard_webhooks():
    """The example that the specification's own libraries are tested with."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_genuine_callback_is_read_whatever_the_case_of_its_headers():
    shouted = {name.upper(): value for name, value in headers().items()}

    callback = verify_callback(KEY, shouted, BODY, clock=at(SENT_AT))

    assert isinstance(callback, Callback)
    assert (callback.operation_id, callback.type, callback.version) == ("op-1", "operation.settled", 6)


def test_one_of_several_signatures_is_enough_so_that_a_key_can_be_changed():
    several = headers(webhook_signature=f"v1a,xyz v1,AAAA {headers()['webhook-signature']}")

    assert verify_callback(KEY, several, BODY, clock=at(SENT_AT)).operation_id == "op-1"


@pytest.mark.parametrize(
    ("given", "body", "key"),
    [
        (headers(), BODY.replace(b"verified", b"partial"), KEY),
        (headers(), BODY + b" ", KEY),
        (headers(), BODY, b"another key, long enough to be one"),
        (headers(webhook_id="op-2-6"), BODY, KEY),
        (headers(webhook_timestamp="1782900001"), BODY, KEY),
        (headers(webhook_timestamp="-5"), BODY, KEY),
        (headers(webhook_timestamp="٣"), BODY, KEY),
        (headers(webhook_timestamp="9" * 400), BODY, KEY),
        (headers(webhook_signature=""), BODY, KEY),
        (headers(webhook_signature="v1,ü"), BODY, KEY),
        (headers(webhook_signature=headers()["webhook-signature"].removeprefix("v1,")), BODY, KEY),
        ({}, BODY, KEY),
    ],
)
def test_a_forged_callback_is_refused(given: dict[str, str], body: bytes, key: bytes):
    with pytest.raises(Refusal) as refused:
        verify_callback(key, given, body, clock=at(SENT_AT))

    assert refused.value.code == ErrorCode.FORGED_CALLBACK


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_genuine_callback_that_is_replayed_later_is_refused(seconds: int):
    with pytest.raises(Refusal, match="not sent within 300 s"):
        verify_callback(KEY, headers(), BODY, clock=at(SENT_AT + timedelta(seconds=seconds)))


def test_what_is_signed_but_is_no_callback_is_refused_without_its_content():
    body = b'{"secret": "do not repeat me"}'
    sent_at = int(SENT_AT.timestamp())

    with pytest.raises(Refusal) as refused:
        verify_callback(
            KEY, headers(webhook_signature=signature(KEY, "op-1-6", sent_at, body)), body, clock=at(SENT_AT)
        )

    assert "do not repeat me" not in str(refused.value.as_details())


def test_fields_that_a_newer_version_adds_are_ignored():
    body = BODY.replace(b'"version":6', b'"version":6,"news":true')
    sent_at = int(SENT_AT.timestamp())

    read = verify_callback(
        KEY, headers(webhook_signature=signature(KEY, "op-1-6", sent_at, body)), body, clock=at(SENT_AT)
    )

    assert read.version == 6
