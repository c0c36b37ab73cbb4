"""The search attributes an operation's workflow carries. The names are ours, so no server reserves them."""

from __future__ import annotations

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.common import SearchAttributeKey

OPERATION_STATUS = SearchAttributeKey.for_keyword("OperationStatus")
OPERATION_SESSION = SearchAttributeKey.for_keyword("OperationSession")
OPERATION_RESOURCES = SearchAttributeKey.for_keyword_list("OperationResources")
AWAITING_DECISION = SearchAttributeKey.for_bool("AwaitingDecision")
UNKNOWN_EFFECT = SearchAttributeKey.for_bool("UnknownEffect")

REQUIRED = {
    OPERATION_STATUS.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    OPERATION_SESSION.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    OPERATION_RESOURCES.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    AWAITING_DECISION.name: IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
    UNKNOWN_EFFECT.name: IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
}
