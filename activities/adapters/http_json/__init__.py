"""JSON APIs over HTTP, described by a profile: create, update and delete records, at most once, with evidence."""
