"""One publication in a process of its own: `root state path generation (kill|stop) fault_point [expected_digest]`.

Prints the evidence's digest, or the code of the refusal. Stopping is SIGSTOP, sent by itself to itself.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from counterfoil.activities.adapters.base import AdapterContext, Phase
from counterfoil.activities.adapters.jail import WorkspaceRoot
from counterfoil.activities.adapters.publication import Publication, Publisher
from counterfoil.activities.fault_points import FaultPoint, KillOnce
from counterfoil.models.common import digest_bytes
from counterfoil.models.errors import Refusal

NEW = b"the new words\n"


def main() -> None:
    root, state, path, generation, how, point = sys.argv[1:7]
    expected = sys.argv[7] if len(sys.argv) > 7 else None
    wanted = FaultPoint(point)

    def stop(reached: FaultPoint) -> None:
        if reached is wanted:
            os.kill(os.getpid(), signal.SIGSTOP)

    context = AdapterContext(
        phase=Phase.EXECUTE,
        operation_id="op-test",
        blobs=None,  # type: ignore[arg-type]  # a publisher needs no blobs
        now=datetime.now(UTC),
        timeout_seconds=30,
        checkpoint=stop if how == "stop" else KillOnce(wanted, Path(state) / "killed"),
    )
    publisher = Publisher(WorkspaceRoot(Path(root)), Path(state))
    try:
        evidence = publisher.publish(context, Publication(path, NEW, digest_bytes(NEW), expected), int(generation))
    except Refusal as refusal:
        print(refusal.code)
    else:
        print(evidence.digest)


if __name__ == "__main__":
    main()
