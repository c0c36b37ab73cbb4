"""Collaborative documents for tests: written with the Yjs runtime, kept in a system of their own."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from pycrdt import Doc, XmlElement, XmlFragment, XmlText

from counterfoil.activities.documents.loading import Loaded
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.fault_points import Checkpoint, no_fault
from counterfoil.activities.store.database import Database
from counterfoil.models.documents.captures import CaptureRequest, Purpose, Reach, WholeDocument, WorkingOn
from counterfoil.models.documents.targets import DocumentTarget, Selection, target_of


class Editor:
    """Somebody's editor: a Yjs document of paragraphs, and what was typed since the last time it was asked."""

    def __init__(self, *paragraphs: str, update: bytes | None = None, client_id: int | None = None) -> None:
        self.doc: Doc[Any] = Doc(client_id=client_id)
        self._sent = self.doc.get_state()
        self.root: XmlFragment = self.doc.get("prosemirror", type=XmlFragment)
        if update is not None:
            self.doc.apply_update(update)
            self._sent = self.doc.get_state()
        for text in paragraphs:
            self.add(text)

    def add(self, text: str, name: str = "paragraph", **attributes: Any) -> None:
        """Append a block."""
        self.insert(len(self.root.children), text, name, **attributes)

    def insert(self, index: int, text: str, name: str = "paragraph", **attributes: Any) -> None:
        """Put a block in."""
        with self.doc.transaction():
            self.root.children.insert(index, XmlElement(name, attributes, [XmlText(text)] if text else []))

    def text(self, index: int) -> XmlText:
        """The text of a block."""
        found = self.root.children[index].children[0]
        assert isinstance(found, XmlText)
        return found

    def type(self, index: int, at: int, text: str) -> None:
        """Type into a block; `at` counts characters."""
        written = str(self.text(index))
        self.text(index).insert(len(written[:at].encode()), text)

    def erase(self, index: int, start: int, end: int) -> None:
        """Delete characters of a block."""
        written = str(self.text(index))
        del self.text(index)[len(written[:start].encode()) : len(written[:end].encode())]

    def update(self) -> bytes:
        """The whole document."""
        return self.doc.get_update()

    def typed(self) -> bytes:
        """What was typed since this was last asked."""
        since, self._sent = self._sent, self.doc.get_state()
        return self.doc.get_update(since)

    def state_vector(self) -> bytes:
        return self.doc.get_state()

    def take(self, update: bytes) -> None:
        """What others typed."""
        self.doc.apply_update(update)


def system(database: Database, folder: Path, checkpoint: Checkpoint = no_fault) -> DocumentSystem:
    """Documents on this database, with their blobs in this folder."""
    return DocumentSystem(database, (folder / "blobs").absolute().as_uri(), checkpoint)


def passage(loaded: Loaded, text: str, document_id: str = "notes") -> DocumentTarget:
    """The target of the first occurrence of a text."""
    start = loaded.text.text.index(text)
    first = loaded.text.place_of(start)
    last = loaded.text.place_of(start + len(text), forward=False)
    return target_of(loaded.index, loaded.text, Selection(document_id, first, last))


def capture_of(capture_id: str, target: DocumentTarget | None = None, **given: Any) -> CaptureRequest:
    """A request to capture the document `notes`."""
    values: dict[str, Any] = {
        "capture_id": capture_id,
        "document_id": "notes",
        "purpose": Purpose.CHAT,
        "choice": WholeDocument() if target is None else WorkingOn(target=target),
        "context": Reach.WHOLE,
        "changes": Reach.TARGET,
        "egress": Reach.WHOLE,
    }
    if "state_vector" in given:
        given["state_vector"] = base64.b64encode(given["state_vector"])
    return CaptureRequest(**(values | given))
