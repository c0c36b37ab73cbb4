"""Database, unit of work, ledger, blobs: what every system shares."""
