"""The default profile in the SDKs' files, read as botocore reads it (configloader.py). Loaded where such a file exists.

Lambda has none of these files. configparser and shlex take 3 ms.
"""

from __future__ import annotations

import configparser
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


def setting(config: str, credentials: str, wanted: Collection[str]) -> str:
    """Return what the files say that only boto3 understands, for the log. "": nothing.

    config, credentials: the paths of the two files. wanted: the names of the settings.
    """
    for path, is_config in ((config, True), (credentials, False)):
        parser = configparser.RawConfigParser()
        try:
            parser.read([path])  # a file that cannot be opened is left out, as by botocore
            for section in parser.sections():
                for name, value in parser.items(section):
                    if value.startswith("\n") and not all("=" in line for line in value.split("\n") if line.strip()):
                        return f"{path} cannot be parsed: see {name}"
        except (configparser.Error, UnicodeDecodeError):
            return f"{path} cannot be parsed"
        for section in parser.sections():
            if section == "default" or (is_config and section.startswith("profile") and _named(section) == "default"):
                for name in parser.options(section):
                    if name in wanted:
                        return f"{path} sets {name}"
    return ""


def _named(section: str) -> str:
    """Return the name of a profile: ``[profile name]`` or ``[profile "name"]``."""
    try:
        words = shlex.split(section)
    except ValueError:
        return ""
    return words[1] if len(words) == 2 else ""
