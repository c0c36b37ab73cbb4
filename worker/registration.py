"""Registering our search attributes in a namespace: once for each deployment, as often as one likes."""

from __future__ import annotations

import asyncio

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client

from counterfoil.models.errors import ErrorCode, Refusal, Unavailable
from counterfoil.workflows.search_attributes import REQUIRED

VISIBLE_SECONDS = 30


async def register_search_attributes(client: Client) -> list[str]:
    """Add what is missing; the names that were added. Returns when the server knows them.

    Raises `Refusal` (`SEARCH_ATTRIBUTES_MISSING`) where a name is taken by another type, and `Unavailable`
    (`TIMED_OUT`) where the server does not come to know them.
    """
    present = await _present(client)
    wrong = [name for name, kind in REQUIRED.items() if present.get(name, kind) != kind]
    if wrong:
        raise Refusal(
            ErrorCode.SEARCH_ATTRIBUTES_MISSING,
            f"the namespace '{client.namespace}' has {', '.join(wrong)} with another type",
            subject=client.namespace,
            remedy="use a namespace of its own for Counterfoil",
        )
    missing = {name: kind for name, kind in REQUIRED.items() if name not in present}
    if missing:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )
        await _until_known(client)
    return sorted(missing)


async def _until_known(client: Client) -> None:
    for _ in range(VISIBLE_SECONDS * 2):
        if REQUIRED.keys() <= (await _present(client)).keys():
            return
        await asyncio.sleep(0.5)
    raise Unavailable(
        ErrorCode.TIMED_OUT,
        f"the server does not know the new search attributes after {VISIBLE_SECONDS} s",
        subject=client.namespace,
        remedy="run it again; a cluster may take a while to spread them",
    )


async def _present(client: Client) -> dict[str, IndexedValueType.ValueType]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return dict(answer.custom_attributes)
