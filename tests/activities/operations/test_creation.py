"""The claim on (session, idempotency key): decided once, for ever, whoever asks and how many at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from counterfoil.activities.operations.creation import parse_request
from counterfoil.models.errors import CounterfoilError, ErrorCode, Refusal
from counterfoil.models.operations.contract import OperationRequest, Resource
from support.scripted import request


async def test_the_same_request_under_the_same_key_is_the_same_operation_for_ever(bench: Any) -> None:
    deadline = bench.clock.now.replace(hour=13)
    first = await bench.create(constraints={"deadline": deadline.isoformat()})
    await bench.tell(first.id, "cancel", {"reason": "enough"})
    bench.clock.forward(10 * 365 * 86400)

    again = await bench.create(constraints={"deadline": deadline.isoformat()})

    assert (again.id, again.state, again.created_at) == (first.id, "cancelled", first.created_at)
    assert await bench.kinds(first.id) == ["created", "queue", "cancel_locally"]


@pytest.mark.parametrize("change", [{"input": {"value": 3}}, {"objective": "other"}, {"route_id": "other.v1"}])
async def test_another_request_under_the_same_key_is_refused(bench: Any, refused: Any, change: dict[str, Any]) -> None:
    bench.route()
    bench.route("other.v1")
    await bench.create()

    with refused(ErrorCode.IDEMPOTENCY_CONFLICT):
        await bench.create(**change)

    assert len(await bench.ledger(request().operation_id)) == 2


async def test_the_same_key_in_another_session_is_another_operation(bench: Any) -> None:
    first = await bench.create()
    second = await bench.create(owner={"workspace": "w", "session": "other"})

    assert first.id != second.id


async def test_many_who_ask_for_the_same_at_once_get_one_operation(bench: Any) -> None:
    bench.route()

    rows = await asyncio.gather(*[bench.create() for _ in range(20)])

    assert {row.id for row in rows} == {"op-hbknauwtasf7uegki7nqn3nzmrzuz7mh"}
    assert await bench.kinds(rows[0].id) == ["created", "queue"]


async def test_of_many_different_requests_under_one_key_exactly_one_is_taken(bench: Any) -> None:
    bench.route()

    answers = await asyncio.gather(
        *[bench.create(input={"value": number}) for number in range(12)], return_exceptions=True
    )

    taken = [answer for answer in answers if not isinstance(answer, BaseException)]
    codes = [answer.code for answer in answers if isinstance(answer, CounterfoilError)]
    assert len(taken) == 1
    assert codes == ["IDEMPOTENCY_CONFLICT"] * 11
    kept = json.loads(taken[0].request)["input"]
    assert (await bench.read(taken[0].id)).request.input == kept


async def test_many_operations_of_a_session_nobody_has_seen_are_all_created(bench: Any) -> None:
    bench.route()

    rows = await asyncio.gather(*[bench.create(key=f"k{number}") for number in range(20)])

    assert len({row.id for row in rows}) == 20


@pytest.mark.parametrize(
    ("on_create", "changes", "decision", "state"),
    [
        ("hold", {}, False, "held"),
        ("hold", {"preparation": "pure"}, True, "held"),
        ("prepare", {}, False, "prepared"),
        ("prepare", {}, True, "prepared"),
        ("prepare", {"preparation": "pure"}, False, "preparing"),
        ("prepare", {"preparation": "effectful"}, False, "preparing"),
        ("execute", {}, False, "queued"),
        ("execute", {}, True, "awaiting_decision"),
        ("execute", {"preparation": "pure"}, True, "preparing"),
        ("execute", {"preparation": "effectful"}, False, "preparing"),
    ],
)
async def test_a_new_operation_goes_as_far_as_it_was_asked_to(
    bench: Any, on_create: str, changes: dict[str, Any], decision: bool, state: str
) -> None:
    bench.route(**changes)
    question = {"decision": {"reason": "r", "question": "q"}} if decision else {}

    created = await bench.create(on_create=on_create, **question)

    assert created.state == state
    assert await bench.claims() == []


async def test_an_input_of_eight_kilobytes_stays_in_the_row(bench: Any) -> None:
    frame = len('{"x":""}')
    created = await bench.create(input={"x": "a" * (8 * 1024 - frame)})

    assert created.input_blob is None
    assert (await bench.read(created.id)).request.input == {"x": "a" * (8 * 1024 - frame)}


async def test_a_larger_input_moves_to_a_blob_and_can_be_had_back(bench: Any) -> None:
    text = "é" * 10_000
    created = await bench.create(input={"x": text})
    again = await bench.create(input={"x": text})

    ref = json.loads(created.input_blob)
    assert "é" not in created.request
    assert again.id == created.id
    from counterfoil.models.common import BlobRef

    assert json.loads(bench.blobs.get(BlobRef.model_validate(ref))) == {"x": text}
    assert (ref["size_bytes"], ref["media_type"]) == (20_008, "application/json")


async def test_an_input_beyond_a_megabyte_is_refused_and_nothing_is_kept(bench: Any, refused: Any) -> None:
    with refused(ErrorCode.INPUT_TOO_LARGE):
        await bench.create(input={"x": "a" * (1024 * 1024)})
    with refused(ErrorCode.NOT_FOUND):
        await bench.row(request().operation_id)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"route_id": "nowhere.v1"}, ErrorCode.UNKNOWN_ROUTE),
        ({"capability": "record.delete"}, ErrorCode.UNKNOWN_CAPABILITY),
        ({"constraints": {"deadline": "2020-01-01T00:00:00Z"}}, ErrorCode.DEADLINE_PASSED),
        ({"constraints": {"max_cost": {"amount": "1", "currency": "EUR"}}}, ErrorCode.COST_UNKNOWN),
        ({"depends_on": ["op-1"]}, ErrorCode.DEPENDENCY_NOT_FOUND),
        ({"supersedes": "op-1"}, ErrorCode.NOT_FOUND),
        ({"assumptions": [{"subject": "doc", "version": 1}]}, ErrorCode.NOT_FOUND),
    ],
)
async def test_a_request_that_cannot_be_kept_is_refused_before_anything_is_written(
    bench: Any, refused: Any, change: dict[str, Any], code: ErrorCode
) -> None:
    with refused(code):
        await bench.create(**change)
    with refused(ErrorCode.NOT_FOUND):
        await bench.row(request().operation_id)


async def test_a_route_without_background_is_refused_where_background_is_required(bench: Any, refused: Any) -> None:
    bench.route(background=False)

    with refused(ErrorCode.NOT_POSSIBLE):
        await bench.create(constraints={"background_required": True})


def spelled(identity: str) -> dict[str, str]:
    return {"kind": "file", "system": "folders", "identity": identity}


def lower(resource: Resource) -> Resource:
    return resource.model_copy(update={"identity": resource.identity.lower()})


async def test_two_spellings_of_one_resource_are_one_lock(bench: Any) -> None:
    bench.catalog.register_system("folders", lower)
    first = await bench.create(key="a", resources=[spelled("Report")])
    second = await bench.create(key="b", resources=[spelled("REPORT")])

    assert await bench.grant(first.id)
    assert not await bench.grant(second.id)
    assert (await bench.read(second.id)).blocked.detail == f"folders:report is held by {first.id}"


async def test_a_resource_listed_in_two_spellings_is_refused(bench: Any, refused: Any) -> None:
    bench.catalog.register_system("folders", lower)

    with refused(ErrorCode.BAD_REQUEST):
        await bench.create(resources=[spelled("Report"), spelled("REPORT")])


async def test_the_route_is_pinned_as_it_was_at_creation(bench: Any) -> None:
    created = await bench.create()

    operation = await bench.read(created.id)
    assert (operation.route.adapter, operation.route.adapter_version) == ("scripted", "1")
    assert created.task_queue == "queue-scripted.v1"


def test_a_request_may_come_as_json_or_as_itself() -> None:
    asked = request()

    assert parse_request(asked) is asked
    assert parse_request(asked.model_dump(mode="json")) == asked


NESTED: Any = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (None, "request"),
        ("op-1", "request"),
        ([], "request"),
        ({}, "owner"),
        (request().model_dump(mode="json") | {"surprise": 1}, "surprise"),
        (request().model_dump(mode="json") | {"input": {"x": float("nan")}}, "input"),
        (request().model_dump(mode="json") | {"input": {"x": "\ud800"}}, "JSON"),
        (request().model_dump(mode="json") | {"input": NESTED}, "JSON"),
        (object(), "JSON"),
    ],
)
def test_what_is_not_a_request_is_refused_saying_where(raw: Any, named: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_request(raw)

    assert caught.value.code == ErrorCode.BAD_REQUEST
    assert named in caught.value.detail
    assert len(caught.value.detail) < 2000


def test_a_request_of_three_megabytes_is_refused_before_it_is_read() -> None:
    raw = request().model_dump(mode="json") | {"input": {"x": "a" * 3_000_000}}

    with pytest.raises(Refusal) as caught:
        parse_request(raw)
    assert caught.value.code == ErrorCode.INPUT_TOO_LARGE


def test_a_stored_request_is_read_back_as_the_same_request() -> None:
    asked = request(constraints={"deadline": "2030-01-01T00:00:00Z"})

    assert OperationRequest.model_validate_json(asked.model_dump_json()).digest == asked.digest
