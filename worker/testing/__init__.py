"""What hosts test with: a real stack in the background of a test session, and an adapter whose answers a test sets."""
