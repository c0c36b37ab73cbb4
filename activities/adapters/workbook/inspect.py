"""What kind of file some bytes are, found out before any workbook library sees them. Bytes win over the name.

A workbook is what its own declarations say: `_rels/.rels` names the main part, `[Content_Types].xml` its type, and the
part is there. Anything else is refused with a code that says what it is instead.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

import olefile
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from counterfoil.activities.adapters.workbook.markup import unsupported
from counterfoil.activities.adapters.workbook.package import (
    Package,
    corrupt,
    read_package,
    relationships_of,
    resolve,
)
from counterfoil.models.errors import ErrorCode, Refusal

CONTENT_TYPES = "[Content_Types].xml"
_ROOT_RELATIONSHIPS = "_rels/.rels"
_OFFICE_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_STRICT = "http://purl.oclc.org/ooxml/"
_MAIN_TYPES = {
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml": ".xlsx",
    "application/vnd.ms-excel.sheet.macroEnabled.main+xml": ".xlsm",
}
_OTHER_TYPES = {
    "application/vnd.openxmlformats-officedocument.spreadsheetml.template.main+xml": "a workbook template (.xltx)",
    "application/vnd.ms-excel.template.macroEnabled.main+xml": "a macro-enabled template (.xltm)",
    "application/vnd.ms-excel.addin.macroEnabled.main+xml": "an add-in (.xlam)",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml": "a text document (.docx)",
    "application/vnd.ms-word.document.macroEnabled.main+xml": "a text document (.docm)",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml": "a presentation (.pptx)",
    "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml": "a presentation (.pptm)",
}
_BINARY_TYPE = "application/vnd.ms-excel.sheet.binary.macroEnabled.main"
_CFB = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BYTE_ORDER_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_SIGNATURES = ((b"MZ", "a program"), (b"%PDF-", "a PDF"), (b"{\\rtf", "rich text (.rtf)"), (b"\x89PNG", "an image"))


@dataclass(frozen=True)
class Workbook:
    """A workbook that may be edited: its parts, the name of its main part, and its declared content types."""

    package: Package
    main: str
    suffix: str
    overrides: dict[str, str]
    """Content type by part name (case-folded), where the part has its own."""
    defaults: dict[str, str]
    """Content type by file extension (lower case)."""

    def content_type(self, part: str) -> str:
        """The declared content type of a part, or nothing."""
        own = self.overrides.get(part.casefold())
        return own if own is not None else self.defaults.get(part.rpartition(".")[2].lower(), "")


def inspect(content: bytes, suffix: str) -> Workbook:
    """The workbook that these bytes are; `suffix` is the file name's, such as `.xlsx`.

    Raises `Refusal`: `WORKBOOK_ENCRYPTED`, `WORKBOOK_LEGACY`, `WORKBOOK_STRICT`, `WORKBOOK_CORRUPT`,
    `WORKBOOK_MISLABELLED`, `WORKBOOK_NOT_OOXML`, `WORKBOOK_UNSUPPORTED_CONTENT`.
    """
    suffix = suffix.lower()
    if content.startswith(_CFB):
        raise _compound(content)
    if not content.startswith(b"PK"):
        raise _no_container(content)
    package = read_package(content)
    workbook = _workbook(package, suffix)
    if workbook.suffix != suffix:
        kind = "macro-enabled (.xlsm)" if workbook.suffix == ".xlsm" else "without macros (.xlsx)"
        raise _mislabelled(f"a workbook {kind} under a {suffix or 'nameless'} name")
    _refuse_what_cannot_be_kept(workbook)
    return workbook


def _workbook(package: Package, suffix: str) -> Workbook:
    roots = package.find(_ROOT_RELATIONSHIPS)
    types = package.find(CONTENT_TYPES)
    if roots is None or types is None:
        raise _foreign_container(package)
    main: str | None = None
    for relationship in _xml(package, roots):
        kind = relationship.get("Type", "")
        if kind.startswith(_STRICT) and kind.endswith("/officeDocument"):
            raise Refusal(
                ErrorCode.WORKBOOK_STRICT,
                "the workbook is in the strict variant of the format, which common readers take for an empty one",
                subject="source",
                remedy="save it as an ordinary Excel workbook (.xlsx)",
            )
        if kind == _OFFICE_DOCUMENT:
            main = package.find(resolve("", relationship.get("Target", "")))
            if main is None:
                raise corrupt(f"the main part '{relationship.get('Target', '')[:100]}' is missing")
    if main is None:
        raise _foreign_container(package)
    overrides: dict[str, str] = {}
    defaults: dict[str, str] = {}
    for declaration in _xml(package, types):
        if declaration.tag.endswith("}Override"):
            overrides[declaration.get("PartName", "").lstrip("/").casefold()] = declaration.get("ContentType", "")
        elif declaration.tag.endswith("}Default"):
            defaults[declaration.get("Extension", "").lower()] = declaration.get("ContentType", "")
    workbook = Workbook(package, main, suffix, overrides, defaults)
    declared = workbook.content_type(main)
    if declared == _BINARY_TYPE:
        raise _not_ooxml("a binary workbook (.xlsb)")
    if declared in _OTHER_TYPES:
        raise _mislabelled(_OTHER_TYPES[declared])
    if declared not in _MAIN_TYPES:
        raise _not_ooxml(f"a document of the type '{declared[:100]}'")
    return Workbook(package, main, _MAIN_TYPES[declared], overrides, defaults)


def _refuse_what_cannot_be_kept(workbook: Workbook) -> None:
    """Content that any edit would invalidate."""
    for part in workbook.package.parts:
        folded = part.casefold()
        if folded.startswith("_xmlsignatures/"):
            raise unsupported(part, "the workbook is digitally signed; an edit would break the signature")
        if folded.startswith("xl/revisions/"):
            raise unsupported(
                part, "the workbook is shared and keeps a log of revisions, which an edit would contradict"
            )
    root = _xml(workbook.package, workbook.main)
    for element in root:
        name = element.tag.rpartition("}")[2]
        if name == "fileSharing" and (element.get("reservationPassword") or element.get("hashValue")):
            raise unsupported(workbook.main, "the workbook is reserved: changing it takes a password")
    rels = workbook.package.find(relationships_of(workbook.main))
    if rels is None:
        raise corrupt("the workbook has no relationships, hence no sheets")


def _xml(package: Package, part: str) -> Element:
    try:
        return fromstring(package.parts[part])
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        raise corrupt(f"the part '{part[:100]}' is not sound XML: {error}") from error


def _compound(content: bytes) -> Refusal:
    try:
        with olefile.OleFileIO(io.BytesIO(content)) as compound:
            streams = {"/".join(path).casefold() for path in compound.listdir()}
    except Exception as error:  # olefile raises what it likes on hostile bytes; none of it is a workbook
        return corrupt(f"the compound file cannot be read: {error}")
    if "encryptedpackage" in streams:
        return Refusal(
            ErrorCode.WORKBOOK_ENCRYPTED,
            "the workbook is protected by a password",
            subject="source",
            remedy="remove the password in the application and save it",
        )
    if streams & {"workbook", "book"}:
        return Refusal(
            ErrorCode.WORKBOOK_LEGACY,
            "the file is a workbook of the old binary format (.xls)",
            subject="source",
            remedy="save it as .xlsx",
        )
    if "worddocument" in streams:
        return _mislabelled("a text document of the old binary format (.doc)")
    if "powerpoint document" in streams:
        return _mislabelled("a presentation of the old binary format (.ppt)")
    return _not_ooxml("a compound file without a workbook in it")


def _no_container(content: bytes) -> Refusal:
    for signature, name in _SIGNATURES:
        if signature in content[:1024] if signature == b"%PDF-" else content.startswith(signature):
            return _not_ooxml(name)
    if not content:
        return corrupt("the file is empty")
    if content[:4] in (b"\x09\x08\x10\x00", b"\x09\x08\x08\x00", b"\x09\x04\x06\x00", b"\x09\x02\x06\x00"):
        return Refusal(
            ErrorCode.WORKBOOK_LEGACY,
            "the file is a workbook of an old binary format without its compound file",
            subject="source",
            remedy="save it as .xlsx",
        )
    text = _as_text(content)
    if text is None:
        return _not_ooxml("a file of no known kind")
    if re.match(r"\s*(<!doctype html|<html|<head|<body|<table|<meta|<\?xml|<!--)", text, re.IGNORECASE):
        return _mislabelled("a web page or an XML document")
    return _mislabelled("a text file, perhaps comma-separated values")


def _as_text(content: bytes) -> str | None:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8-sig")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _foreign_container(package: Package) -> Refusal:
    mimetype = package.parts.get("mimetype", b"")[:100].decode("ascii", "replace").strip()
    if mimetype:
        return _mislabelled(f"a file of the type {mimetype}")
    return _not_ooxml("a zip archive without a workbook in it")


def _mislabelled(what: str) -> Refusal:
    return Refusal(
        ErrorCode.WORKBOOK_MISLABELLED,
        f"the file is {what}, not the workbook its name says",
        subject="source",
        remedy="name the file for what it is, or save it as a workbook",
    )


def _not_ooxml(what: str) -> Refusal:
    return Refusal(
        ErrorCode.WORKBOOK_NOT_OOXML,
        f"the file is {what}, not an Office Open XML workbook",
        subject="source",
        remedy="save it as .xlsx",
    )
