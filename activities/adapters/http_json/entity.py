"""What a profile says of one kind of record, of looking it up by key, and of work that goes on after the reply."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from counterfoil.activities.adapters.http_json.names import FieldPath, ProfileName
from counterfoil.models.common import Contract

Action = Literal["create", "update", "delete"]
Consistency = Literal["strong", "eventual"]
"""`strong`: a read shows every write that took effect before it. `eventual`: it may lag behind."""

_LITERAL = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*")
_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]{0,39})\}")


class ClientKey(Contract):
    """The operation id is stored in `field` of a created record; with `query`, records can be found by it."""

    field: FieldPath
    query: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~\[\]-]{1,100}$")] | None = None
    """`GET <collection>?<query>=<operation id>`. A filter: it gives the records that have the key, and no others."""
    items: FieldPath | None = None
    """Where the reply lists the records; None: the reply is the list."""
    lookup: Consistency = "eventual"


class Entity(Contract):
    """One kind of record: where its collection is, what may be done, and what its reads and versions are worth."""

    path: Annotated[str, StringConstraints(max_length=200)]
    """The collection below the base address, such as `contacts` or `projects/{project}/tasks`."""
    id_field: FieldPath = "id"
    actions: Annotated[tuple[Action, ...], Field(min_length=1)] = ("create", "update", "delete")
    ids: Literal["target", "client"] = "target"
    """Who gives a new record its id. `client`: created by `PUT <collection>/<id>` with `If-None-Match: *`."""
    update_method: Literal["PATCH", "PUT"] = "PATCH"
    """`PUT` sends the whole record as it was read, with the asked fields changed."""
    update_media_type: Literal["application/json", "application/merge-patch+json"] = "application/json"
    etags: bool = False
    """The target sends an ETag with a record, and refuses (412) a change whose `If-Match` is not the present one."""
    reads: Consistency = "eventual"
    """Of reads by id."""
    client_key: ClientKey | None = None
    writable: tuple[str, ...] | None = None
    """The top-level fields a request may set; None: any but the id and the key."""
    kept_fields: tuple[FieldPath, ...] = ()
    """Fields of a record that results may carry. The id is always kept."""
    volatile_fields: tuple[str, ...] = ()
    """Top-level fields that change by themselves: left out of the digest that stands for a version without ETags."""

    @field_validator("path")
    @classmethod
    def _path_is_plain(cls, path: str) -> str:
        segments = path.split("/")
        if not all(_LITERAL.fullmatch(part) or _PARAMETER.fullmatch(part) for part in segments):
            raise ValueError("a path is plain segments and {parameters}, separated by '/', below the base address")
        named = [part for part in segments if part.startswith("{")]
        if len(set(named)) != len(named):
            raise ValueError("a path names each parameter once")
        return path

    @model_validator(mode="after")
    def _key_is_not_the_id(self) -> Self:
        if self.client_key is not None and self.client_key.field == self.id_field:
            raise ValueError("client_key.field is the id: say ids = 'client' instead")
        return self

    @property
    def parameters(self) -> tuple[ProfileName, ...]:
        """The names of the path's parameters, in order."""
        return tuple(_PARAMETER.findall(self.path))

    def conditional(self, action: Action) -> bool:
        """Whether the target applies this action only while a version token still matches."""
        return self.ids == "client" if action == "create" else self.etags


class Jobs(Contract):
    """Work that goes on after `202 Accepted`: where it is looked at, and what its words mean."""

    location_field: FieldPath | None = None
    """Where the body of the 202 names the job's address; None: the Location header does."""
    status_field: FieldPath = "status"
    running: tuple[str, ...] = ("queued", "running")
    done: Annotated[tuple[str, ...], Field(min_length=1)] = ("done",)
    failed: tuple[str, ...] = ("failed",)
    cancelled: tuple[str, ...] = ("cancelled",)
    ends_clean: bool = False
    """A job that failed or was cancelled has changed nothing. False: it may have, so what it left is unknown."""
    result_id_field: FieldPath | None = None
    """Where a finished job names the id of the record it made; None: `result_location_field`, or the client key."""
    result_location_field: FieldPath | None = None
    cancel: Literal["DELETE", "POST"] | None = None
    """How a job is cancelled, at its own address with `cancel_suffix` added. None: it cannot be."""
    cancel_suffix: Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._~-]+)?$", max_length=100)] = ""
    poll_seconds: Annotated[float, Field(ge=0.05, le=3600)] = 2
    """How long to wait between looks where the target does not say (Retry-After)."""

    @model_validator(mode="after")
    def _words_have_one_meaning(self) -> Self:
        words = [*self.running, *self.done, *self.failed, *self.cancelled]
        if len(set(words)) != len(words):
            raise ValueError("a job's status means one thing")
        return self
