"""From settings to a client: what a host or the command line does first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.keys import resolve_key
from counterfoil.control_plane.reader import require_store
from counterfoil.control_plane.settings import ConnectionSettings, load_settings
from counterfoil.control_plane.temporal import connect as connect_temporal
from counterfoil.models.errors import Refusal


async def connect(
    settings: ConnectionSettings | None = None, *, timeout_seconds: float = 60, creating: bool = True
) -> ControlPlane:
    """A client of the deployment the settings name (by default the environment's, or the stack in this folder).

    One that is not for `creating` loads no adapters; it leaves all checking to the worker. Raises `Unavailable`
    (`TEMPORAL_UNAVAILABLE`, `STORE_UNAVAILABLE`) or `Refusal` (`SETTINGS_INVALID`).
    """
    chosen = settings or load_settings(ConnectionSettings)
    require_store(chosen)
    seal_key = chosen.sealing_key()
    temporal = await connect_temporal(
        address=chosen.temporal_address(),
        payload_key=resolve_key(chosen.payload_key),
        identity=chosen.principal,
        usual_place=chosen.usual_temporal,
    )
    database = Database(chosen.database)
    return ControlPlane(
        temporal,
        database,
        _catalog_of_client(chosen) if creating else None,
        task_queue=_or_of_stack(chosen, "task_queue"),
        principal=chosen.principal,
        seal_key=seal_key,
        scopes=chosen.scopes,
        timeout_seconds=timeout_seconds,
        blobs=BlobStore(chosen.blobs) if creating else None,
        documents=DocumentSystem(database, chosen.blobs) if creating else None,
    )


def catalog_of(settings: ConnectionSettings) -> Catalog:
    """The adapters this process knows."""
    return build_catalog(
        workspace_root=Path(_or_of_stack(settings, "workspace_root")).absolute(),
        state_dir=settings.state_dir.absolute(),
        registrations=settings.adapters,
        http_profiles=settings.http_profiles or tuple(map(Path, settings.stack().get("http_profiles", ()))),
        mcp_servers=settings.mcp_servers or tuple(map(Path, settings.stack().get("mcp_servers", ()))),
        with_entry_points=settings.entry_points,
    )


def _catalog_of_client(settings: ConnectionSettings) -> Catalog | None:
    """What a client can check by itself: with the adapters it was told of, else with those of the stack it talks to.

    An adapter of the stack that cannot be imported here is no fault of this process: then the worker checks.
    """
    told = tuple(settings.stack().get("adapters", ()))
    if settings.adapters or not told:
        return catalog_of(settings)
    try:
        return catalog_of(settings.model_copy(update={"adapters": told}))
    except Refusal:
        return None


def _or_of_stack(settings: ConnectionSettings, name: str) -> Any:
    """A setting as it was given; else what the running stack says of itself; else the default."""
    if name in settings.model_fields_set:
        return getattr(settings, name)
    return settings.stack().get(name, getattr(settings, name))
