"""Collaborative documents: the durable log and its head, captures, receipts, proposals, retention."""
