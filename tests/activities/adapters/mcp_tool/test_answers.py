"""What a tool answered: kept whole, typed, and without secrets."""

from __future__ import annotations

import logging

import pytest

from counterfoil.activities.adapters.base import Phase
from counterfoil.activities.adapters.mcp_tool.references import SCRUBBED, Secrets
from counterfoil.activities.adapters.runner import AdapterRaised
from counterfoil.models.common import BlobRef

SECRET = "s3cr3t-4711-token"


async def test_a_picture_is_kept_as_a_blob_of_its_type(calls, profile, blobs):
    outcome = await (one := calls(profile())).executed(one.request("picture"))

    (block,) = outcome.result.data["content"]
    assert block["type"] == "image"
    assert block["blob"]["media_type"] == "image/png"
    assert blobs.get(BlobRef.model_validate(block["blob"])) == b"\x89PNG picture"


async def test_structured_content_that_fits_its_schema_passes_without_a_word(calls, profile):
    outcome = await (one := calls(profile())).executed(one.request("total"))

    assert outcome.result.data["structured"] == {"total": 3}
    assert "misfits" not in outcome.result.data


async def test_structured_content_that_does_not_fit_is_completed_and_says_so(calls, profile):
    outcome = await (one := calls(profile())).executed(one.request("wrong_total"))

    assert outcome.status == "completed"
    assert outcome.result.summary.endswith("its answer does not fit its own schema")
    assert outcome.result.data["misfits"] == ["total: 'three' is not of type 'integer'"]


async def test_a_secret_the_server_repeats_is_nowhere_in_the_outcome(calls, profile, monkeypatch, caplog):
    monkeypatch.setenv("PAYMENTS_TOKEN", SECRET)
    caplog.set_level(logging.DEBUG)
    one = calls(profile(environment=("PAYMENTS_TOKEN",)))
    order = await one.prepared(one.request("tell_environment"))

    outcome = await one.phase(Phase.EXECUTE, order)

    assert outcome.result.data["content"][0]["text"] == f"token {SCRUBBED}"
    assert outcome.result.data["structured"]["environment"]["PAYMENTS_TOKEN"] == SCRUBBED
    assert SECRET not in outcome.model_dump_json() + order.prepared.model_dump_json() + repr(one.adapter._profiles)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("tool", ["invalid_params", "timeout_error"])
async def test_a_secret_in_an_error_is_scrubbed(calls, profile, monkeypatch, tool):
    monkeypatch.setenv("PAYMENTS_TOKEN", SECRET)
    one = calls(profile(environment=("PAYMENTS_TOKEN",)))

    outcome = await one.executed(one.request(tool))

    assert SECRET not in outcome.detail
    assert SCRUBBED in outcome.detail


async def test_other_variables_of_the_worker_do_not_reach_the_server(calls, profile, monkeypatch):
    monkeypatch.setenv("PAYMENTS_TOKEN", SECRET)
    outcome = await (one := calls(profile())).executed(one.request("tell_environment"))

    assert "PAYMENTS_TOKEN" not in outcome.result.data["structured"]["environment"]


async def test_a_variable_that_is_not_set_is_named_and_nothing_is_started(calls, profile, log):
    one = calls(profile(environment=("NOT_SET_ANYWHERE",)))

    with pytest.raises(AdapterRaised, match="the variable NOT_SET_ANYWHERE is not set"):
        await one.phase(Phase.PREPARE, one.order(one.request("pay")))

    assert log.count("started") == 0


def test_the_parts_of_a_secret_are_secrets():
    secrets = Secrets({"A": "Bearer abcdef", "B": "xy"})

    assert secrets.scrub("abcdef and xy") == f"{SCRUBBED} and xy"
    assert secrets.scrub_bytes(b"\x00abcdef") == b"\x00[secret]"
    assert "abcdef" not in repr(secrets)
