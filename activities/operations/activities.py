"""The activities of an operation's workflow, one a step. Each ends in one transaction and returns the row's new view.

Refusals are returned in the answer or raised as typed, non-retryable application errors.
"""

from counterfoil.activities.operations.adapter_steps import AdapterSteps
from counterfoil.activities.operations.transitions import Transitions


class OperationActivities(Transitions, AdapterSteps):
    """Everything the workflows of operations and sessions ask to have done."""
