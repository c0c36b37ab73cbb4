"""The vocabulary of collaborative documents: positions, targets, projections, receipts, proposals. No I/O.

A document is a Yjs document whose root XML fragment holds a ProseMirror document, as y-prosemirror writes it.
"""
