"""Deliveries: the outbox of callbacks, and the sending of what is in it. What is to be told is others' business."""
