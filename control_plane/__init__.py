"""What hosts and people hold: the typed client, the Temporal connection, keys by reference."""
