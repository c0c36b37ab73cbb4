"""An adapter in one small class, for a target nobody can look into: a letterbox.

It declares no observation and no verification, because there is none. When the reply is lost, Counterfoil does not
guess: the operation is `unknown` until a person attests what happened. Register it with
`--adapters letterbox:register` (or `COUNTERFOIL_ADAPTERS=letterbox:register`).
"""

from pathlib import Path

from pydantic import BaseModel

from counterfoil import (
    AdapterContext,
    Catalog,
    Completed,
    OperationRequest,
    Order,
    Route,
    TypedResult,
    UnknownEffect,
)


class Letter(BaseModel):
    """What is dropped in: one line. `lose_reply` makes the letterbox forget to answer."""

    text: str
    lose_reply: bool = False


class Letterbox:
    """Appends letters to a file that stands for the inside of the box."""

    route = Route(
        id="example.letterbox.v1",
        adapter="example.letterbox",
        adapter_version="1",
        capabilities=("letter.post",),
        protocol="file",
        control="slot",
    )

    def __init__(self, inside: Path) -> None:
        self._inside = inside

    def validate_input(self, request: OperationRequest) -> Letter:
        return Letter.model_validate(request.input)

    def execute(self, context: AdapterContext, order: Order) -> Completed | UnknownEffect:
        letter = order.typed_input
        assert isinstance(letter, Letter)
        self._inside.parent.mkdir(parents=True, exist_ok=True)
        with self._inside.open("a") as box:
            box.write(f"{context.operation_id} {letter.text}\n")
        if letter.lose_reply:
            return UnknownEffect(code="NO_REPLY", detail="pushed through the slot; nothing was heard of it")
        return Completed(result=TypedResult(kind="letter", summary=f"posted: {letter.text}"))


def register(catalog: Catalog) -> None:
    """What `--adapters letterbox:register` calls."""
    catalog.register(Letterbox(Path("letterbox.txt")))
