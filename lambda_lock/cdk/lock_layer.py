"""LockLayer: the library as a Lambda layer, compiled for the functions' versions of Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .. import __version__
from ..errors import LockArgumentError
from . import layer_files
from .synthesis import warn

_OLDEST = 11  # the library runs on Python 3.11 and newer


class LockLayer(lambda_.LayerVersion):
    """A layer with the installed version of lambda_lock, without the parts that never run in a function.

        library = LockLayer(self, "Library", runtimes=[lambda_.Runtime.PYTHON_3_13])
        function.add_layers(library)

    The layer has ``.pyc`` files for each runtime whose interpreter is found: the Python that runs the app, or the
    runtime's name on the PATH, such as ``python3.13``. Each other runtime gets a warning, and its functions compile the
    library at each cold start. The same library and interpreters give the same layer. It fits both architectures.

    runtimes: the versions of Python that functions with this layer may have, 3.11 or newer; at least one.
    layer_version_name: the layer's name; None: CloudFormation chooses one.
    removal_policy: what happens to a version of the layer when a newer one replaces it, or when it is removed from the
        stack. By default it is deleted; functions that use it keep it.

    Raises LockArgumentError for runtimes that the library does not run on, and TypeError for other objects.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        runtimes: Sequence[lambda_.Runtime],
        layer_version_name: str | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.DESTROY,
    ) -> None:
        given: object = runtimes
        if not isinstance(given, Sequence) or not all(isinstance(each, lambda_.Runtime) for each in given):
            raise TypeError(f"runtimes must be a list of aws_lambda.Runtime, not {given!r}")
        if not runtimes:
            raise LockArgumentError("runtimes=[] is empty: name the runtime of each function that uses the layer")
        by_name = {runtime.name: runtime for runtime in runtimes}
        for name in by_name:
            version = re.fullmatch(r"python3\.(\d+)", name)
            if version is None or int(version[1]) < _OLDEST:
                raise LockArgumentError(
                    f"runtimes: lambda_lock does not run on {name}. Use Python 3.{_OLDEST} or newer"
                )
        interpreters = {name: layer_files.find_interpreter(name) for name in by_name}
        found = [program for program in interpreters.values() if program is not None]
        super().__init__(
            scope,
            id,
            code=lambda_.Code.from_asset(
                str(layer_files.PACKAGE),
                asset_hash_type=cdk.AssetHashType.OUTPUT,
                bundling=cdk.BundlingOptions(
                    image=cdk.DockerImage.from_registry("none"),  # required, but never used
                    local=_Files(found),
                    environment={"INTERPRETERS": " ".join(found)},  # the CDK bundles once for equal options
                ),
            ),
            compatible_runtimes=list(by_name.values()),
            compatible_architectures=[lambda_.Architecture.X86_64, lambda_.Architecture.ARM_64],
            description=f"lambda_lock {__version__}",
            license="Apache-2.0",
            layer_version_name=layer_version_name,
            removal_policy=removal_policy,
        )
        for name, program in interpreters.items():
            if program is None:
                warn(self, f"no-pyc-{name}", layer_files.missing(name))


@jsii.implements(cdk.ILocalBundling)
class _Files:
    """Writes the layer where the CDK wants it."""

    def __init__(self, interpreters: Sequence[str]) -> None:
        self._interpreters = interpreters

    def try_bundle(self, output_dir: str, *_: object, **__: object) -> bool:
        layer_files.write(Path(output_dir), self._interpreters)
        return True
