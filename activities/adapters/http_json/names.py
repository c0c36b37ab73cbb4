"""The kinds of names a profile uses, and those it may not."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

ProfileName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""A profile's or an entity's name."""

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
"""An environment variable's name."""

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]([\x20-\x7e]{0,498}[\x21-\x7e])?$")]

FieldPath = Annotated[str, StringConstraints(pattern=r"^[^.\x00-\x1f]+(\.[^.\x00-\x1f]+)*$", max_length=200)]
"""A field of a JSON object; dots lead into objects: `meta.status`."""

RESERVED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "if-match",
        "if-none-match",
        "proxy-authorization",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
"""Headers the adapter sets itself, or that carry credentials (in lower case)."""

KEPT_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie"})
"""Headers of a reply that are never kept (in lower case)."""
