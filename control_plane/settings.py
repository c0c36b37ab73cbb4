"""What a host, the command line and a worker must know to reach one deployment. From `COUNTERFOIL_…` variables.

A running `counterfoil dev` leaves its address in `<state_dir>/stack.json`, so commands in the same folder find it.
Temporal's own connection settings come from Temporal's own environment configuration.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from counterfoil.control_plane.keys import ensure_key_file, resolve_key
from counterfoil.models.common import Scope
from counterfoil.models.errors import ErrorCode, Refusal

STACK_FILE = "stack.json"
DATABASES = ("sqlite:///", "postgresql://", "postgresql+psycopg://")

S = TypeVar("S", bound="ConnectionSettings")


class ConnectionSettings(BaseSettings):
    """Where one deployment's stores are, and how commands to it are sealed."""

    model_config = SettingsConfigDict(env_prefix="COUNTERFOIL_", extra="ignore")

    state_dir: Path = Path(".counterfoil")
    """Where the embedded stack keeps its files: databases, blobs, keys."""
    database_url: str | None = None
    """`sqlite:///…` or `postgresql://…`; by default an SQLite file in `state_dir`."""
    blob_url: str | None = None
    """`file:///…` or `s3://bucket/prefix`; by default a folder in `state_dir`."""
    workspace_root: Path = Path()
    """The folder below which the file and workbook adapters may act."""
    task_queue: str = "counterfoil"
    adapters: Annotated[tuple[str, ...], NoDecode] = ()
    """Registrations as `package.module:register`, separated by commas."""
    mcp_servers: Annotated[tuple[Path, ...], NoDecode] = ()
    """Profiles of MCP servers: TOML files, and folders of them, separated by commas."""
    http_profiles: Annotated[tuple[Path, ...], NoDecode] = ()
    """Profiles of JSON APIs: TOML files, and folders of them, separated by commas."""
    entry_points: bool = True
    """Whether installed distributions may register adapters."""
    seal_key: str | None = None
    """Reference (`env:NAME`, `file:/path`) of the key that seals commands; by default a file in `state_dir`."""
    payload_key: str | None = None
    """Reference of the key that encrypts Temporal payloads; none by default."""
    principal: str = Field(default_factory=lambda: os.environ.get("USER") or "local")
    """Who this process acts for when it seals a command."""
    scopes: Annotated[tuple[Scope, ...], NoDecode] = tuple(Scope)

    @field_validator("database_url")
    @classmethod
    def _database_is_supported(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(DATABASES):
            raise ValueError("a database is named as sqlite:///file or postgresql://user@host/name")
        return url

    def __init__(self, **values: Any) -> None:
        for name in ("adapters", "http_profiles", "mcp_servers", "scopes"):
            values.setdefault(name, _listed(os.environ.get(f"COUNTERFOIL_{name.upper()}"), values, name, type(self)))
        super().__init__(**values)

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.state_dir.absolute() / 'counterfoil.db'}"

    @property
    def blobs(self) -> str:
        """The blob store's URL."""
        return self.blob_url or (self.state_dir.absolute() / "blobs").as_uri()

    def sealing_key(self) -> bytes | None:
        """The key that seals commands. Embedded, it is made on first use."""
        if self.seal_key is None and self.database_url is None:
            return resolve_key(ensure_key_file(self.state_dir.absolute() / "seal.key"))
        return resolve_key(self.seal_key)

    def temporal_address(self) -> str | None:
        """The embedded stack's Temporal, where one runs in this folder and the environment names no other."""
        if "TEMPORAL_ADDRESS" in os.environ or "TEMPORAL_PROFILE" in os.environ:
            return None
        return self.stack().get("temporal")

    @property
    def usual_temporal(self) -> bool:
        """Whether a Temporal server at the usual place will do where none is named.

        It will not for a store in a state directory: another directory's stack may have that place, and a command must
        never reach a worker that has another store.
        """
        return self.database_url is not None

    def stack(self) -> dict[str, Any]:
        """What a running `counterfoil dev` says of itself; empty where there is none."""
        try:
            found = json.loads((self.state_dir / STACK_FILE).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _listed(text: str | None, values: dict[str, Any], name: str, kind: type[ConnectionSettings]) -> Any:
    if name in values:
        return values[name]
    if text is None:
        return kind.model_fields[name].default
    return tuple(part.strip() for part in text.split(",") if part.strip())


def load_settings(kind: type[S], **values: Any) -> S:
    """Settings from the environment, or `Refusal` (`SETTINGS_INVALID`) naming the variable that is wrong."""
    try:
        return kind(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        told = "; ".join(_problem(one["loc"], one["msg"]) for one in error.errors())
        raise Refusal(
            ErrorCode.SETTINGS_INVALID, told, subject="settings", remedy="docs/operating.md lists the settings"
        ) from None


def _problem(place: tuple[int | str, ...], told: str) -> str:
    variable = f"COUNTERFOIL_{str(place[0]).upper()}: " if place else ""
    return variable + told.removeprefix("Value error, ")
