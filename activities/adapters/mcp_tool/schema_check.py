"""Run as a program: reads {"schema", "instance"} and writes what does not fit, as a JSON list of sentences.

A schema comes from a server and may be hostile: a regular expression that takes for ever, references that multiply. A
process of its own can be ended. It resolves no reference outside the schema, and imports nothing of Counterfoil.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MOST_PROBLEMS = 5


def problems(schema: Any, instance: Any) -> list[str]:
    """What does not fit, at most five sentences; of a schema that is none, that."""
    from itertools import islice

    from jsonschema import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
        errors = kind(schema, registry=Registry()).iter_errors(instance)
        return [f"{_place(error.absolute_path)}: {error.message[:200]}" for error in islice(errors, MOST_PROBLEMS)]
    except SchemaError as error:
        return [f"the schema itself is none: {error.message[:200]}"]
    except Unresolvable:
        return ["the schema refers to something outside itself"]
    except RecursionError:
        return ["the schema refers to itself without end"]


def _place(path: Any) -> str:
    return ".".join(str(part) for part in path)[:100] or "the whole"


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump(problems(given["schema"], given["instance"]), sys.stdout)
