"""What a deployer says of an MCP server: how to reach it, whose account it is, and what is known of its tools.

A server's own hints (`readOnlyHint` and the like) are shown to people and never relied on. Only what stands in a
profile changes what an outcome may claim.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from counterfoil.models.common import Contract, Identifier
from counterfoil.models.errors import ErrorCode, Refusal, what_is_wrong

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
"""The name of an environment variable of the worker. Its value is read when the server is reached, and never kept."""

ServerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]

HeaderValue = Annotated[str, StringConstraints(pattern=r"^(?:[A-Za-z][A-Za-z0-9-]* )?\$\{[A-Za-z_][A-Za-z0-9_]*\}$")]
"""`${NAME}`, or a scheme and a reference, such as `Bearer ${NAME}`."""

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")]

WhenNotDone = Literal["unknown", "not_applied"]


class StdioTransport(Contract):
    """A server that is started as a process for every use and spoken to over its standard input and output."""

    kind: Literal["stdio"]
    command: Annotated[str, Field(min_length=1, max_length=1000)]
    args: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    environment: Annotated[tuple[VariableName, ...], Field(max_length=64)] = ()
    """Variables of the worker that the server gets too, besides PATH, HOME, LANG and the like."""
    folder: str | None = None
    """The server's working directory; by default the worker's."""


class HttpTransport(Contract):
    """A server that is reached over streamable HTTP."""

    kind: Literal["http"]
    url: Annotated[str, Field(max_length=2000)]
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=16)] = Field(default_factory=dict)

    @field_validator("url")
    @classmethod
    def _url_has_no_secret(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a server is reached by an http or https URL")
        if parts.username or parts.password:
            raise ValueError("a URL carries no user or password; use a header that refers to a variable")
        return url


class Readback(Contract):
    """A read-only tool whose answer shows whether the effect is there.

    In `arguments`, `expected` and `ruled_out`, `$operation_id` stands for the operation's id and `$arguments.NAME` for
    an argument of the call. Fields are dotted paths into the structured answer, or into the JSON of its text.
    """

    tool: Identifier
    arguments: dict[str, Any] = Field(default_factory=dict)
    expected: Annotated[dict[str, Any], Field(min_length=1, max_length=32)]
    ruled_out: Annotated[dict[str, Any], Field(max_length=32)] = Field(default_factory=dict)
    """Fields that show that the effect did not happen and no longer can, as in `status = "voided"`. For observing."""


class ToolDeclaration(Contract):
    """What the deployer knows of one tool, and answers for."""

    read_only: bool = False
    """It changes nothing, so a call that fails has certainly had no effect."""
    errors_mean: WhenNotDone = "unknown"
    """`not_applied`: a result marked as an error, a failed task and a cancelled one have certainly had no effect."""
    declined_means: WhenNotDone = "unknown"
    """`not_applied`: the tool asks before it acts, so a question that is declined leaves everything as it was."""
    key_argument: Identifier | None = None
    """The argument in which the tool takes an idempotency key. It is given the operation's id."""
    key_retention_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long the tool recognises a key. Without it no replay is ever considered safe."""
    runs_as_task: bool = False
    """The tool is called as a task of the server, which is then polled and can be cancelled."""
    observe: Readback | None = None
    verify: Readback | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> ToolDeclaration:
        if self.key_retention_seconds is not None and self.key_argument is None:
            raise ValueError("key_retention_seconds needs a key_argument")
        if self.verify is not None and self.verify.ruled_out:
            raise ValueError("ruled_out is for observing, not for verifying")
        return self


UNDECLARED = ToolDeclaration()


class ServerProfile(Contract):
    """One MCP server, as this deployment uses it."""

    name: ServerName
    transport: Annotated[StdioTransport | HttpTransport, Field(discriminator="kind")]
    account_id: Identifier | None = None
    """The account its credentials belong to. Resources of a request must name the same."""
    call_timeout_seconds: Annotated[float, Field(ge=10, le=120)] = 60
    """How long a whole step may take: reaching the server, calling, letting it go."""
    start_timeout_seconds: Annotated[float, Field(ge=1, le=60)] = 20
    """How long the server may take until it has answered the handshake."""
    tools: Annotated[dict[Identifier, ToolDeclaration], Field(max_length=256)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _readbacks_are_read_only(self) -> ServerProfile:
        for name, tool in self.tools.items():
            for readback in (tool.observe, tool.verify):
                if readback is not None and not self.declaration(readback.tool).read_only:
                    raise ValueError(f"'{name}' is read back by '{readback.tool}', which is not declared read_only")
        return self

    def declaration(self, tool: str) -> ToolDeclaration:
        """What is declared of a tool; nothing at all, where it is not named."""
        return self.tools.get(tool, UNDECLARED)


def load_profiles(paths: Iterable[Path]) -> tuple[ServerProfile, ...]:
    """The profiles in TOML files, and in the `*.toml` files of folders.

    Raises `Refusal` (`SETTINGS_INVALID`) naming the file and the field that is wrong, and never a value.
    """
    profiles: dict[str, ServerProfile] = {}
    for file in _files(paths):
        profile = _load(file)
        if profile.name in profiles:
            raise _invalid(file, f"a server named '{profile.name}' is described already")
        profiles[profile.name] = profile
    return tuple(profiles.values())


def _files(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.glob("*.toml"))
        else:
            files.append(path)
    return files


def _load(file: Path) -> ServerProfile:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _invalid(file, f"it cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(file, f"it is not TOML: {_place(error)}") from None
    try:
        return ServerProfile.model_validate(values)
    except ValidationError as error:
        raise _invalid(file, what_is_wrong(error, "profile")) from None


def _place(error: Exception) -> str:
    found = re.search(r"at line \d+, column \d+", str(error))
    return found.group() if found else type(error).__name__


def _invalid(file: Path, why: str) -> Refusal:
    return Refusal(
        ErrorCode.SETTINGS_INVALID,
        f"the MCP server profile {file.name}: {why}"[:1000],
        subject=str(file),
        remedy="docs/adapters-mcp.md lists the fields of a profile",
    )
