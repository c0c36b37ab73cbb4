"""The catalog of a process: the adapters that come with Counterfoil, and those the host registers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counterfoil.activities.adapters.catalog import Catalog, load_registrations


def build_catalog(
    *,
    workspace_root: Path,
    state_dir: Path,
    registrations: Sequence[str] = (),
    mcp_servers: Sequence[Path] = (),
    http_profiles: Sequence[Path] = (),
    with_entry_points: bool = True,
) -> Catalog:
    """All adapters of this process.

    `workspace_root` is the folder the file adapters may act in; `state_dir` holds their locks and fences, and must be
    the same for every process that acts on that root. `mcp_servers` and `http_profiles` are files and folders of
    profiles; without any there is no `mcp.tool.v1` and no `http.json.v1`. Raises `Refusal` (`SETTINGS_INVALID`).
    """
    from counterfoil.activities.adapters.document_edit.adapter import DocumentEdit
    from counterfoil.activities.adapters.files import LocalFiles
    from counterfoil.activities.adapters.jail import WorkspaceRoot, normalise_file_resource
    from counterfoil.activities.adapters.publication import Publisher
    from counterfoil.activities.adapters.workbook.adapter import LocalWorkbook

    catalog = Catalog()
    root = WorkspaceRoot(workspace_root, closed=(state_dir,))
    publisher = Publisher(root, state_dir / "publication")
    catalog.register_system("file", normalise_file_resource)
    catalog.register(LocalFiles(publisher, root))
    catalog.register(LocalWorkbook(publisher, root))
    catalog.register(DocumentEdit())
    if mcp_servers:
        from counterfoil.activities.adapters.mcp_tool.adapter import register_servers
        from counterfoil.activities.adapters.mcp_tool.profile import load_profiles

        register_servers(catalog, load_profiles(mcp_servers))
    if http_profiles:
        from counterfoil.activities.adapters.http_json.registration import register_files

        register_files(catalog, http_profiles)
    for register in load_registrations(registrations, with_entry_points=with_entry_points):
        register(catalog)
    return catalog
