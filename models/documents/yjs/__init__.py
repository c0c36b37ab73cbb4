"""Reading Yjs: updates, state vectors, relative positions, and the document they make. Pure; no runtime needed."""
