"""Puts a bill of materials into the wheel, in CycloneDX: .dist-info/sboms/lambda-lock.cdx.json (PEP 770).

Everything in it comes from the package's metadata, so equal sources give an equal file. The wheel contains nothing
from elsewhere. What the extras would install is listed as optional, as they name it: the installer chooses versions.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.core import ProjectMetadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAME = "lambda-lock.cdx.json"


class BillOfMaterials(BuildHookInterface[Any]):
    """Hatchling finds this class by its base."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bill before the wheel is built. ``version``: standard or editable."""
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, NAME)
        path.write_text(json.dumps(bill(self.metadata), indent=2) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def bill(metadata: ProjectMetadata[Any]) -> dict[str, Any]:
    """The bill of materials: the package, what it needs (nothing), and what its extras name."""
    core = metadata.core
    name, version = core.name, metadata.version
    ref = f"pkg:pypi/{name}@{version}"
    needed = [_component(Requirement(text), scope="required") for text in core.dependencies]
    optional = [
        _component(Requirement(text), scope="optional", extra=extra)
        for extra, texts in core.optional_dependencies.items()
        for text in texts
    ]
    package = {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": version,
        "description": core.description,
        "licenses": [{"expression": core.license_expression}],
        "purl": ref,
        "externalReferences": [
            {"type": "website", "url": core.urls["Homepage"]},
            {"type": "vcs", "url": core.urls["Source"]},
        ],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ref)}",
        "version": 1,
        "metadata": {"component": package},
        "components": needed + optional,
        "dependencies": [
            {"ref": ref, "dependsOn": [component["bom-ref"] for component in needed]},
            *({"ref": component["bom-ref"]} for component in needed + optional),
        ],
        "compositions": [{"aggregate": "complete", "assemblies": [ref], "dependencies": [ref]}],
    }


def _component(requirement: Requirement, *, scope: str, extra: str = "") -> dict[str, Any]:
    purl = f"pkg:pypi/{canonicalize_name(requirement.name)}"
    said = {"python:requirement": str(requirement)} | ({"python:extra": extra} if extra else {})
    return {
        "type": "library",
        "bom-ref": f"{extra}:{purl}" if extra else purl,
        "name": requirement.name,
        "scope": scope,
        "purl": purl,
        "properties": [{"name": name, "value": value} for name, value in said.items()],
    }
