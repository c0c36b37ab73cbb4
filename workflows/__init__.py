"""Durable state machines. Deterministic; one file a workflow."""
