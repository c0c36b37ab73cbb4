"""The Yjs runtime, with what it raises made into refusals: a panic of its core is no exception one can foresee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from counterfoil.models.documents.yjs.index import ROOT
from counterfoil.models.documents.yjs.update import Update
from counterfoil.models.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from pycrdt import Doc


class YDocument:
    """A loaded Yjs document. To be used by one thread at a time."""

    def __init__(self) -> None:
        # Most processes never open a document: they need not import how to.
        from pycrdt import Doc, XmlFragment

        self._doc: Doc[Any] = Doc(allow_multithreading=True)
        self._doc.get(ROOT, type=XmlFragment)

    def apply(self, updates: Sequence[bytes]) -> None:
        """Put updates in. Raises `Refusal` (`MALFORMED_UPDATE`)."""
        with _guarded():
            for update in updates:
                self._doc.apply_update(update)

    def encoded(self, since: bytes | None = None) -> bytes:
        """The state as one update, without what was deleted; only what a state vector lacks, where one is given."""
        with _guarded():
            return self._doc.get_update() if since is None else self._doc.get_update(since)

    def state_vector(self) -> bytes:
        """What is in it, as Yjs encodes it."""
        with _guarded():
            return self._doc.get_state()


def merged(updates: Sequence[bytes]) -> bytes:
    """Updates as one, with all that waits for others kept."""
    import pycrdt

    with _guarded():
        return pycrdt.merge_updates(*updates)


def is_applied(update: Update, state: dict[int, int]) -> bool:
    """Whether a document with this state vector has taken all of an update in; what it builds on may be missing."""
    for client, items in update.structs.items():
        if items and items[-1].clock + items[-1].length > state.get(client, 0):
            return False
    return all(
        clock + length <= state.get(client, 0)
        for client, ranges in update.deletions.items()
        for clock, length in ranges
    )


@contextmanager
def _guarded() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of the runtime's core derives from BaseException
        raise Refusal(
            ErrorCode.MALFORMED_UPDATE,
            f"the Yjs runtime does not take it: {type(error).__name__}: {error}"[:300],
            subject="update",
            remedy="send the update as the editor produced it",
        ) from error
