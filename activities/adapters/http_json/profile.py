"""A profile: what one JSON API is and what it promises, declared by whoever deploys it.

Everything that makes a claim possible is declared here, and nothing is assumed: without a retention a key guarantees
nothing, without `settles_after_seconds` an absence is never authoritative. Credentials are named, never held.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from counterfoil.activities.adapters.http_json.entity import Action, Entity, Jobs
from counterfoil.activities.adapters.http_json.names import (
    KEPT_SECRET_HEADERS,
    RESERVED_HEADERS,
    EnvName,
    FieldPath,
    HeaderName,
    HeaderValue,
    ProfileName,
)
from counterfoil.activities.adapters.http_json.spelling import base_address
from counterfoil.models.common import Contract, Identifier, digest_of
from counterfoil.models.errors import ErrorCode, Refusal

DEFAULT_NAME = "default"


class Credential(Contract):
    """Where the worker's environment holds the credential: `bearer_env`, or a `header` and its `env`."""

    bearer_env: EnvName | None = None
    header: HeaderName | None = None
    env: EnvName | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        by_header = self.header is not None and self.env is not None
        if (self.bearer_env is not None) == by_header or (self.header is None) != (self.env is None):
            raise ValueError("give bearer_env, or header and env together")
        return self

    @property
    def variable(self) -> str:
        """The variable's name."""
        return self.bearer_env or self.env or ""

    @property
    def header_name(self) -> str:
        """The header it is sent in."""
        return self.header or "Authorization"


class Idempotency(Contract):
    """The target recognises this header's key, for `actions`, for `retention_seconds` after it first saw it."""

    header: HeaderName = "Idempotency-Key"
    retention_seconds: Annotated[float, Field(gt=0)]
    actions: Annotated[tuple[Action, ...], Field(min_length=1)] = ("create", "update", "delete")


class HttpProfile(Contract):
    """One account of one JSON API. Its route is `http.json.v1:<name>`, or `http.json.v1` for the name `default`."""

    name: ProfileName = DEFAULT_NAME
    base_url: Annotated[str, StringConstraints(max_length=500)]
    """`https://host/path`; everything is below it. Plain `http` only on loopback, or with `allow_plain_http`."""
    allow_plain_http: bool = False
    system: Identifier | None = None
    """How resources name this API; by default the profile's name."""
    account_id: Identifier | None = None
    tenant_id: Identifier | None = None
    environment: Identifier = "local"
    credential: Credential | None = None
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Sent with every request. No secrets: they are part of the profile."""
    idempotency: Idempotency | None = None
    entities: Annotated[dict[ProfileName, Entity], Field(min_length=1)]
    jobs: Jobs | None = None
    refuses_before_acting: tuple[Annotated[int, Field(ge=500, le=599)], ...] = ()
    """Statuses of 5xx that the target answers before it acts, so that they prove that nothing happened."""
    settles_after_seconds: Annotated[float, Field(gt=0)] | None = None
    """The longest life of a request: sent so long ago, it can no longer take effect. None: nobody can say."""
    kept_headers: tuple[HeaderName, ...] = ()
    """Headers of a reply that results may carry, such as a request id."""
    problem_field: FieldPath | None = None
    """Where a refusal's body says why; shown to people. None: only the status is."""
    probe_path: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~/-]*$", max_length=200)] | None = None
    """Read before a dispatch; while it does not answer below 500, the operation waits instead of failing."""
    call_timeout_seconds: Annotated[float, Field(ge=1, le=120)] = 30
    connect_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5
    max_concurrent_calls: Annotated[int, Field(ge=1, le=256)] = 8
    reply_limit_bytes: Annotated[int, Field(ge=1024, le=16 * 1024 * 1024)] = 1024 * 1024
    body_limit_bytes: Annotated[int, Field(ge=64, le=1024 * 1024)] = 256 * 1024
    proxy_from_env: bool = False
    ca_file: Path | None = None
    """Certificates to trust instead of the usual ones. Certificates are always checked."""

    @field_validator("base_url")
    @classmethod
    def _one_spelling(cls, url: str) -> str:
        return base_address(url)

    @model_validator(mode="after")
    def _declarations_fit(self) -> Self:
        if self.base_url.startswith("http:") and not self.allow_plain_http and not _is_loopback(self.base_url):
            raise ValueError("base_url is plain http: use https, or set allow_plain_http")
        if self.settles_after_seconds is not None and self.settles_after_seconds < 2 * self.call_timeout_seconds:
            raise ValueError("settles_after_seconds is less than twice call_timeout_seconds")
        own = {self.idempotency.header.lower()} if self.idempotency else set()
        own |= {self.credential.header_name.lower()} if self.credential else set()
        clash = sorted(name for name in self.headers if name.lower() in RESERVED_HEADERS | own)
        if clash:
            raise ValueError(f"headers may not set {', '.join(clash)}")
        secret = sorted(name for name in self.kept_headers if name.lower() in KEPT_SECRET_HEADERS | own)
        if secret:
            raise ValueError(f"kept_headers may not keep {', '.join(secret)}")
        return self

    @property
    def route_id(self) -> str:
        """The id of the profile's route."""
        return "http.json.v1" if self.name == DEFAULT_NAME else f"http.json.v1:{self.name}"

    @property
    def system_name(self) -> str:
        """The system its resources are of."""
        return self.system or self.name

    @property
    def actions(self) -> tuple[Action, ...]:
        """What its entities allow, together."""
        return tuple(a for a in ("create", "update", "delete") if any(a in e.actions for e in self.entities.values()))

    def keyed(self, action: Action) -> bool:
        """Whether the target recognises the idempotency key for this action."""
        return self.idempotency is not None and action in self.idempotency.actions

    @property
    def digest(self) -> str:
        """Identity of what it says about the target. Time-outs, limits and credentials' names do not count."""
        return digest_of(self.model_dump(mode="json", exclude=_NOT_ABOUT_THE_TARGET))


_NOT_ABOUT_THE_TARGET = {
    "allow_plain_http",
    "credential",
    "environment",
    "probe_path",
    "connect_timeout_seconds",
    "max_concurrent_calls",
    "reply_limit_bytes",
    "body_limit_bytes",
    "proxy_from_env",
    "ca_file",
}


def load_profile(path: Path) -> HttpProfile:
    """The profile in a TOML file. Raises `Refusal` (`SETTINGS_INVALID`) that names the file and the field."""
    try:
        values = tomllib.loads(path.read_text())
        return HttpProfile.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in one['loc']) or 'profile'}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors(include_input=False, include_url=False)
        ]
        detail = "; ".join(problems)[:1000]
    except OSError as error:
        detail = error.strerror or type(error).__name__
    except ValueError as error:  # TOML that is none, bytes that are no text
        detail = f"it is no TOML: {error}"
    raise _refuse(f"the profile {path} cannot be used: {detail}", str(path))


def load_profiles(paths: Iterable[Path]) -> list[HttpProfile]:
    """The profiles in TOML files, and in folders of them by file name. Raises as `load_profile` does."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    profiles = [load_profile(file) for file in files]
    names = [profile.name for profile in profiles]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _refuse(f"two profiles have the name '{twice[0]}'", twice[0])
    return profiles


def require_credentials(profiles: Iterable[HttpProfile], environment: str) -> None:
    """Refuse to serve `environment` without the variables its profiles name. Raises `Refusal` (`SETTINGS_INVALID`)."""
    for profile in profiles:
        credential = profile.credential
        if profile.environment == environment and credential is not None and not os.environ.get(credential.variable):
            raise Refusal(
                ErrorCode.SETTINGS_INVALID,
                f"the profile '{profile.name}' takes its credential from {credential.variable}, which is not set",
                subject=profile.name,
                remedy="set the variable in the worker's environment",
            )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse(detail: str, subject: str) -> Refusal:
    return Refusal(
        ErrorCode.SETTINGS_INVALID, detail, subject=subject, remedy="docs/adapters-http.md explains profiles"
    )
