"""The vocabulary: pydantic contracts and pure rules. Nothing here does I/O."""
