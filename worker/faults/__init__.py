"""The fault harness: any adapter, its target misbehaving on order, the whole deployment hurt by a seeded schedule.

It is judged by the target's own log of effects, never by our database. docs/faults.md says how to add a target.
"""
