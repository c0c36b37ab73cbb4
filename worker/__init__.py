"""Deployment units: settings, composition root, worker process, embedded stack, command line."""
