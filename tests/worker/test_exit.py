"""Short-lived commands: every one of a hundred ends with its own status, whatever the Temporal core's threads do."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.cli import Dev, counterfoil, file_request

AT_A_TIME = 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_of_a_hundred_commands_end_with_the_right_status(dev: Dev):
    done = dev.json("operation", "create", "-", "--wait", stdin=file_request("done", "done.txt"))["operation_id"]
    held = dev.json(
        "operation", "create", "-", "--wait", stdin=file_request("held", "held.txt", on_create="hold"), status=11
    )["operation_id"]
    dev.json("operation", "cancel", held, "--reason", "not needed")
    # Some only read, some call the server and are answered, some call it and are refused.
    commands = [
        (("operation", "show", done), 0),
        (("operation", "show", "op-none"), 4),
        (("operation", "watch", held), 10),
        (("repair",), 0),
        (("operation", "execute", held), 3),
    ]
    runs = commands * 20

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        ended = list(pool.map(lambda run: counterfoil(*run[0], state_dir=dev.state_dir).returncode, runs))

    assert Counter(zip((run[1] for run in runs), ended, strict=True)) == {
        (0, 0): 40,
        (4, 4): 20,
        (10, 10): 20,
        (3, 3): 20,
    }
