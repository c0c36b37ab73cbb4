"""The one spelling of addresses and records: what may be in a path, how it is written, what lies on which origin.

Values are refused rather than cleaned: a slash, a percent sign or a dot segment in an id means different things to
different servers on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from counterfoil.activities.adapters.http_json.entity import Entity
from counterfoil.models.errors import ErrorCode, Refusal
from counterfoil.models.operations.contract import Resource, ResourceKind

DEFAULT_PORTS = {"http": 80, "https": 443}
LONGEST_NAME = 200


def base_address(url: str) -> str:
    """A base address in its one spelling, without a final slash. Raises `ValueError`."""
    try:
        parts = urlsplit(url)
        origin = _origin(parts)
    except ValueError:
        raise ValueError("base_url is no address") from None
    if origin is None:
        raise ValueError("base_url is http://… or https://… with a host")
    if "@" in parts.netloc:
        raise ValueError("base_url holds a name or a password: name the credential's variable instead")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("base_url has no query and no fragment")
    path = "".join(f"/{_segment(part)}" for part in parts.path.strip("/").split("/") if parts.path.strip("/"))
    return origin + path


def collection_path(entity: Entity, parameters: Mapping[str, str]) -> str:
    """The path of a collection below the base address. The parameters must be those the entity names."""
    return "/".join(
        quote(parameters[part[1:-1]], safe="") if part.startswith("{") else part for part in entity.path.split("/")
    )


def record_path(entity: Entity, parameters: Mapping[str, str], record_id: str) -> str:
    """The path of a record below the base address."""
    return f"{collection_path(entity, parameters)}/{quote(record_id, safe='')}"


def check_segment(value: str) -> str:
    """A path parameter or an id as it is, or `ValueError` saying why it cannot be one."""
    if not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(f"it has 1 to {LONGEST_NAME} characters")
    if not value.isprintable() or value != value.strip():
        raise ValueError("it holds invisible characters, or begins or ends with a space")
    if set(value) & set("/\\%"):
        raise ValueError("it holds a slash, a backslash or a percent sign")
    if value in {".", ".."}:
        raise ValueError("it is a dot segment")
    return value


def same_origin(base_url: str, here: str, there: str) -> str | None:
    """An address a reply of `here` named, from the root of the origin (`/path?query`); None if it is elsewhere."""
    if not there.isprintable() or not there.strip() or "\\" in there:
        return None
    try:
        parts = urlsplit(urljoin(here, there.strip()))
        origin = _origin(parts)
    except ValueError:
        return None
    if origin is None or origin != origin_of(base_url) or "@" in parts.netloc:
        return None
    if any(unquote(part) in {".", ".."} for part in parts.path.split("/")):
        return None
    local = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return local if len(local) <= LONGEST_NAME and local.isascii() and " " not in local else None


def origin_of(url: str) -> str:
    """`scheme://host[:port]` of an address in its one spelling."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True)
class RecordSpelling:
    """The normaliser of one API's resources: paths below its base address, however they were written.

    Equal for profiles that are accounts of one API, so they may share a system.
    """

    system: str
    base_url: str

    def __call__(self, resource: Resource) -> Resource:
        """The resource, its identity as `contacts/17`. Raises `Refusal` (`RESOURCE_MISMATCH`)."""
        if resource.kind is not ResourceKind.REMOTE_ENTITY:
            raise self._refuse(resource, f"it is a {resource.kind}, and '{self.system}' has remote entities")
        try:
            identity = self._local(resource.identity)
        except ValueError as error:
            raise self._refuse(resource, str(error)) from None
        if len(identity) > LONGEST_NAME:
            raise self._refuse(resource, f"it has more than {LONGEST_NAME} characters")
        return resource.model_copy(update={"identity": identity})

    def _local(self, identity: str) -> str:
        if "?" in identity or "#" in identity:
            raise ValueError("it has a query or a fragment")
        path = identity
        if "://" in identity:
            parts = urlsplit(identity)
            base = urlsplit(self.base_url)
            prefix = base.path + "/"
            if _origin(parts) != origin_of(self.base_url) or "@" in parts.netloc:
                raise ValueError("it is on another origin")
            path = "".join(f"/{_segment(part)}" for part in parts.path.strip("/").split("/"))
            if not path.startswith(prefix):
                raise ValueError("it is not below the base address")
            path = path[len(prefix) :]
        return "/".join(_segment(part) for part in path.strip("/").split("/"))

    def _refuse(self, resource: Resource, why: str) -> Refusal:
        return Refusal(
            ErrorCode.RESOURCE_MISMATCH,
            f"'{resource.identity[:100]}' is no record of '{self.system}': {why}",
            subject=self.system,
            remedy="name it by its path below the base address, such as contacts/17",
        )


def _segment(part: str) -> str:
    return quote(check_segment(unquote(part, errors="strict")), safe="")


def _origin(parts: SplitResult) -> str | None:
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower().rstrip(".")
    if scheme not in DEFAULT_PORTS or not host or not host.isascii():
        return None
    shown = f"[{host}]" if ":" in host else host
    port = parts.port
    return f"{scheme}://{shown}" + ("" if port in (None, DEFAULT_PORTS[scheme]) else f":{port}")
