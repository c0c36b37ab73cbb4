"""Counterfoil: durable execution for supervised AI agents, on Temporal."""
