"""The composition root: from settings to a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxRestrictions

from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.document_edit.adapter import DocumentEdit
from counterfoil.activities.adapters.document_edit.contract import ROUTE_ID as DOCUMENT_EDIT
from counterfoil.activities.adapters.http_json.profile import load_profiles, require_credentials
from counterfoil.activities.adapters.mcp_tool.profile import load_profiles as mcp_profiles
from counterfoil.activities.adapters.mcp_tool.references import require_variables
from counterfoil.activities.adapters.runner import AdapterRunner
from counterfoil.activities.deliveries.activities import DeliveryActivities, DeliveryParts
from counterfoil.activities.deliveries.bell import Bell
from counterfoil.activities.documents.activities import DocumentActivities
from counterfoil.activities.documents.desk import WorkerDesk
from counterfoil.activities.documents.system import DocumentSystem
from counterfoil.activities.fault_points import TimeOutOnce, checkpoint_of
from counterfoil.activities.operations.activities import OperationActivities
from counterfoil.activities.operations.commands import SealPolicy
from counterfoil.activities.operations.creation import Creator
from counterfoil.activities.operations.gateway import Gateway
from counterfoil.activities.operations.steps import Parts
from counterfoil.activities.operations.views import Timing
from counterfoil.activities.store.blobs import BlobStore
from counterfoil.activities.store.database import Database
from counterfoil.control_plane.connection import catalog_of
from counterfoil.models.common import Clock, utc_now
from counterfoil.models.operations.route import Route
from counterfoil.worker.engine import TemporalEngine
from counterfoil.worker.sandbox import CompiledOnce
from counterfoil.worker.settings import WorkerSettings
from counterfoil.workflows.application_operation import ApplicationOperation
from counterfoil.workflows.deliveries import Deliveries
from counterfoil.workflows.documents import DocumentCapture, DocumentUpkeep
from counterfoil.workflows.lenient import OneArgument
from counterfoil.workflows.operation_sweep import OperationSweep
from counterfoil.workflows.session_command import SessionCommand

if TYPE_CHECKING:
    from counterfoil.activities.deliveries.post import Post

log = logging.getLogger(__name__)

WORKFLOWS: list[type[Any]] = [
    ApplicationOperation,
    OperationSweep,
    SessionCommand,
    Deliveries,
    DocumentCapture,
    DocumentUpkeep,
]

PASSED_THROUGH = (
    "counterfoil.models",
    "counterfoil.activities",
    "counterfoil.workflows.inbox",
    "counterfoil.workflows.lenient",
    "counterfoil.workflows.search_attributes",
    "sqlalchemy",
    "sqlmodel",
    "obstore",
)
"""What the workflow sandbox need not load again for every workflow. The workflows themselves stay inside it."""


@dataclass(frozen=True)
class Unit:
    """Everything one worker process runs: its workers, and what they share."""

    workers: list[Worker]
    activities: OperationActivities
    deliveries: DeliveryActivities
    documents: DocumentSystem
    bell: Bell
    database: Database
    catalog: Catalog
    gateway: Gateway


def queue_naming(settings: WorkerSettings) -> Callable[[Route], str]:
    """Names the queue of a route's adapter activities, by the settings' `adapter_queues`."""

    def separate(route: Route) -> str:
        return f"{settings.task_queue}/{route.environment}/{route.adapter}@{route.adapter_version}"

    return separate if settings.adapter_queues == "separate" else lambda route: settings.task_queue


def build_unit(settings: WorkerSettings, client: Client, *, catalog: Catalog | None = None) -> Unit:
    """All workers of one process. Nothing is started, and nothing is connected yet."""
    catalog = catalog_of(settings) if catalog is None else catalog
    require_credentials(load_profiles(settings.http_profiles), settings.environment)
    require_variables(mcp_profiles(settings.mcp_servers) if settings.environment == "local" else ())
    checkpoint = checkpoint_of(settings.fault, settings.state_dir)
    engine = TemporalEngine(client, settings.task_queue)
    post = _post(settings)
    bell = Bell(engine.deliver, checkpoint)
    database = Database(
        settings.database,
        clock=_clock(settings),
        enqueued=None if post is None else bell.ring,
        commit_fault=checkpoint if isinstance(checkpoint, TimeOutOnce) else None,
    )
    deliveries = DeliveryActivities(
        DeliveryParts(
            database=database,
            post=post,
            bell=bell,
            checkpoint=checkpoint,
        )
    )
    documents = DocumentSystem(database, settings.blobs, checkpoint)
    editing = catalog.find(DOCUMENT_EDIT)
    if isinstance(editing, DocumentEdit):
        editing.desk = WorkerDesk(database, documents.blobs, documents.documents, documents.consumption, checkpoint)
    document_activities = DocumentActivities(
        documents, collect_after=timedelta(seconds=settings.collect_documents_after_seconds)
    )
    blobs = BlobStore(settings.blobs)
    queue_of = queue_naming(settings)
    gateway = Gateway(database, catalog.tools, engine)
    activities = OperationActivities(
        Parts(
            database=database,
            blobs=blobs,
            catalog=catalog,
            creator=Creator(catalog, blobs, queue_of, checkpoint),
            runner=AdapterRunner(),
            engine=engine,
            policy=SealPolicy(key=settings.sealing_key(), allow_unsealed=settings.allow_unsealed),
            timing=Timing(
                heartbeat_seconds=settings.heartbeat_seconds, local_transitions=settings.max_cached_workflows > 0
            ),
            gateway=gateway,
            checkpoint=checkpoint,
        )
    )
    served = [route for route in catalog.routes() if route.environment == settings.environment]
    adapter_queues = sorted({queue_of(route) for route in served} - {settings.task_queue})
    workers = [_main_worker(settings, client, activities, deliveries, document_activities)]
    workers += [_adapter_worker(settings, client, activities, queue) for queue in adapter_queues]
    return Unit(workers, activities, deliveries, documents, bell, database, catalog, gateway)


def _clock(settings: WorkerSettings) -> Clock:
    if settings.clock_shift_seconds == 0:
        return utc_now
    shift = timedelta(seconds=settings.clock_shift_seconds)
    return lambda: utc_now() + shift


def _post(settings: WorkerSettings) -> Post | None:
    key = settings.callback_signing_key()
    if settings.callback_url is None or key is None:
        return None
    # Most of a start is importing: a worker that has nobody to tell need not import how to.
    from counterfoil.activities.deliveries.post import Post

    return Post(settings.callback_url, key)


def _main_worker(
    settings: WorkerSettings,
    client: Client,
    activities: OperationActivities,
    deliveries: DeliveryActivities,
    documents: DocumentActivities,
) -> Worker:
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=WORKFLOWS,
        activities=[
            *all_activities(activities),
            deliveries.deliver,
            documents.capture_document,
            documents.keep_up_documents,
        ],
        workflow_runner=workflow_runner(),
        interceptors=[OneArgument()],
        max_cached_workflows=settings.max_cached_workflows,
        # A killed worker's workflows are asked for elsewhere after this long.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.heartbeat_seconds),
        **_shared(settings),
    )


def workflow_runner() -> CompiledOnce:
    """Temporal's sandbox, with the modules passed through that are costly to load and safe to share."""
    return CompiledOnce(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


def _adapter_worker(settings: WorkerSettings, client: Client, activities: OperationActivities, queue: str) -> Worker:
    return Worker(client, task_queue=queue, activities=adapter_activities(activities), **_shared(settings))


def _shared(settings: WorkerSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "graceful_shutdown_timeout": timedelta(seconds=settings.drain_seconds),
        "max_concurrent_activities": settings.max_concurrent_activities,
        # Heartbeats are how a cancellation arrives and how a killed worker is noticed: never hold them back for long.
        "max_heartbeat_throttle_interval": timedelta(seconds=settings.heartbeat_seconds / 3),
        "default_heartbeat_throttle_interval": timedelta(seconds=settings.heartbeat_seconds / 3),
    }
    options["deployment_config"] = _deployment(settings)
    return options


def _deployment(settings: WorkerSettings) -> WorkerDeploymentConfig:
    if settings.deployment_name is None or settings.build_id is None:
        # Named all the same: for a worker without a name the SDK hashes every loaded module, half a second a start.
        return WorkerDeploymentConfig(
            version=WorkerDeploymentVersion("counterfoil", version("counterfoil")), use_worker_versioning=False
        )
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(settings.deployment_name, settings.build_id),
        use_worker_versioning=True,
        # An operation may live for months: it goes on under the newest version, after a replay test.
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


def adapter_activities(activities: OperationActivities) -> list[Callable[..., Any]]:
    """The activities that call an adapter."""
    return [
        activities.prepare,
        activities.dispatch,
        activities.await_readiness,
        activities.observe,
        activities.cancel_at_target,
        activities.verify,
    ]


def all_activities(activities: OperationActivities) -> list[Callable[..., Any]]:
    """Every activity: the adapter's, and the transitions'."""
    return [
        *adapter_activities(activities),
        activities.open_operation,
        activities.apply_command,
        activities.reload,
        activities.expire,
        activities.fence_dispatch,
        activities.sweep,
        activities.apply_session_command,
        activities.tell_operations,
    ]
