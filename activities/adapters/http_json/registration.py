"""Puts profiles into a catalog: one route each, and one normaliser for each system."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from counterfoil.activities.adapters.catalog import Catalog
from counterfoil.activities.adapters.http_json.adapter import HttpJson
from counterfoil.activities.adapters.http_json.profile import HttpProfile, load_profiles
from counterfoil.activities.adapters.http_json.spelling import RecordSpelling
from counterfoil.models.errors import ErrorCode, Refusal


def register(catalog: Catalog, profile: HttpProfile, *, environ: Mapping[str, str] = os.environ) -> HttpJson:
    """Add a profile's route.

    Raises `ValueError` where the catalog has a route of this name, or another API under the same system.
    """
    adapter = HttpJson(profile, environ=environ)
    catalog.register(adapter)
    catalog.register_system(profile.system_name, RecordSpelling(profile.system_name, profile.base_url))
    return adapter


def register_files(catalog: Catalog, paths: Iterable[Path]) -> None:
    """Add the routes of the profiles in TOML files and folders. Raises `Refusal` (`SETTINGS_INVALID`)."""
    for profile in load_profiles(paths):
        try:
            register(catalog, profile)
        except ValueError as error:
            raise Refusal(
                ErrorCode.SETTINGS_INVALID,
                f"the profile '{profile.name}' cannot be registered: {error}",
                subject=profile.name,
                remedy="give every profile a name of its own, and every API a system of its own",
            ) from None
