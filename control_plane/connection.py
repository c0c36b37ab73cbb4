"""From settings to a client: what a host or the command line does first."""

from __future__ import annotations

from pathlib import Path

from counterfoil.activities.adapters.builtin import build_catalog
from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.store.database import Database
from counterfoil.control_plane.client import ControlPlane
from counterfoil.control_plane.keys import resolve_key
from counterfoil.control_plane.settings import ConnectionSettings, load_settings
from counterfoil.control_plane.temporal import connect as connect_temporal
from counterfoil.models.errors import ErrorCode, Unavailable


async def connect(settings: ConnectionSettings | None = None, *, timeout_seconds: float = 60) -> ControlPlane:
    """A client of the deployment the settings name (by default the environment's, or the stack in this folder).

    Raises `Unavailable` (`TEMPORAL_UNAVAILABLE`, `STORE_UNAVAILABLE`) or `Refusal` (`SETTINGS_INVALID`).
    """
    chosen = settings or load_settings(ConnectionSettings)
    _require_store(chosen)
    temporal = await connect_temporal(
        address=chosen.temporal_address(), payload_key=resolve_key(chosen.payload_key), identity=chosen.principal
    )
    return ControlPlane(
        temporal,
        Database(chosen.database),
        catalog_of(chosen),
        task_queue=chosen.task_queue,
        principal=chosen.principal,
        seal_key=chosen.sealing_key(),
        scopes=chosen.scopes,
        timeout_seconds=timeout_seconds,
    )


def catalog_of(settings: ConnectionSettings) -> Catalog:
    """The adapters this process knows."""
    stack = settings.stack()
    root = settings.workspace_root
    if "workspace_root" not in settings.model_fields_set and "workspace_root" in stack:
        root = Path(stack["workspace_root"])
    return build_catalog(
        workspace_root=root.absolute(),
        state_dir=settings.state_dir.absolute(),
        registrations=settings.adapters,
        with_entry_points=settings.entry_points,
    )


def _require_store(settings: ConnectionSettings) -> None:
    if settings.database_url is None and not (settings.state_dir / "counterfoil.db").exists():
        raise Unavailable(
            ErrorCode.STORE_UNAVAILABLE,
            f"there is no store in '{settings.state_dir}'",
            subject=str(settings.state_dir),
            remedy="`counterfoil dev` starts a stack here; or set COUNTERFOIL_STATE_DIR or COUNTERFOIL_DATABASE_URL",
        )
