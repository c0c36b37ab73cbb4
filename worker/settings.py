"""A worker's settings: what `ConnectionSettings` says, and how this worker serves."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from counterfoil.control_plane.keys import resolve_key
from counterfoil.control_plane.settings import ConnectionSettings


class WorkerSettings(ConnectionSettings):
    """From `COUNTERFOIL_…` variables; docs/operating.md lists them."""

    model_config = SettingsConfigDict(hide_input_in_errors=True)

    environment: str = "local"
    """The place this worker acts in: it serves the routes of this environment only."""
    adapter_queues: Literal["shared", "separate"] = "separate"
    """`separate`: one task queue for each environment and adapter version. `shared`: the workflows' own queue, for a
    single worker that is the only one of its environment (as the embedded stack's is)."""
    allow_unsealed: bool = False
    """Honour commands without a seal (a bare Temporal signal), recorded as unauthenticated."""
    heartbeat_seconds: Annotated[float, Field(ge=1, le=300)] = 10
    """An adapter activity unheard of for so long is taken for lost."""
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 30
    """How long running activities may finish after SIGTERM."""
    sweep_seconds: Annotated[float, Field(ge=1)] = 60
    """How often the sweep looks for operations that nobody serves."""
    document_upkeep_seconds: Annotated[float, Field(ge=1)] = 600
    """How often long logs of documents are compacted, and bytes that nothing uses removed."""
    collect_documents_after_seconds: Annotated[float, Field(ge=60)] = 86_400
    """How long bytes of documents must have been unused before they are removed."""
    connect_tries: Annotated[int, Field(ge=1)] = 60
    """How often a worker tries to reach Temporal and the database at start, with growing pauses."""
    max_concurrent_activities: Annotated[int, Field(ge=1)] = 100
    max_cached_workflows: Annotated[int, Field(ge=0)] = 1000
    callback_url: str | None = Field(default=None, repr=False)
    """Where to tell of operations that settle, ask or become unknown: https, or http on this machine."""
    callback_key: str | None = None
    """Reference (`env:NAME`, `file:/path`) of the key that signs what is told."""
    deployment_name: str | None = None
    """With `build_id`: the Temporal worker deployment this worker is a version of."""
    build_id: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """What a worker logs on stderr."""
    fault: str | None = None
    """A fault point at which this process kills itself once; after `timeout:`, a store write (or `every` one) that
    happens and is reported as timed out, once. For fault tests and the demonstration only."""
    clock_shift_seconds: float = 0
    """How wrong this process's clock is. For fault tests only."""

    @field_validator("callback_url")
    @classmethod
    def _callback_is_safe(cls, url: str | None) -> str | None:
        if url is not None and not _may_be_posted_to(url):
            raise ValueError("a callback goes to https://…, or to http://… on this machine's loopback interface")
        return url

    @model_validator(mode="after")
    def _callback_is_signed(self) -> Self:
        if (self.callback_url is None) != (self.callback_key is None):
            raise ValueError("callback_url and callback_key are given together or not at all")
        return self

    def callback_signing_key(self) -> bytes | None:
        """The key that signs callbacks. Raises `Refusal` (`SETTINGS_INVALID`)."""
        return resolve_key(self.callback_key)

    @model_validator(mode="after")
    def _version_is_whole(self) -> Self:
        if (self.deployment_name is None) != (self.build_id is None):
            raise ValueError("deployment_name and build_id are given together or not at all")
        return self


def _may_be_posted_to(url: str) -> bool:
    """Whether nobody on the way can read what is posted there, or there is no way."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme == "http":
        return host == "localhost" or _is_loopback(host)
    return parts.scheme == "https" and host != ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
