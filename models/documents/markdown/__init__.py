"""Canonical Markdown: written from a ProseMirror document with a position map, and read into nodes again."""
