"""Maps the five rooms at the repository's root to `counterfoil.<room>`; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = ("models", "workflows", "activities", "control_plane", "worker", "migrations")

packages = ["counterfoil"]
for room in ROOMS:
    packages += [f"counterfoil.{room}", *(f"counterfoil.{room}.{child}" for child in find_packages(room))]

setup(packages=packages, package_dir={f"counterfoil.{room}": room for room in ROOMS})
