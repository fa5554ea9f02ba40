"""Commands for a table that has been in use for a while: what must go is erased, and a restored table is prepared."""

from __future__ import annotations

import click

from ..client import erase as erasing
from ..client.base import run, session_of
from ..client.record import LockRecord
from ..client.session import Operation
from ..core import requests
from ..errors import LockFormatError, LockNotGrantedError
from . import exits, options
from .exits import CONFIGURATION, Failure
from .forced import confirm
from .options import Shared


@click.command()
@click.option("--scope", metavar="TEXT", default="", help="The scope of the function, if KEY is an event's without it.")
@click.option("--force", is_flag=True, help="Erase the row although it is in use, or cannot be read. Asks for the key.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. For scripts.")
@options.of_lock
@options.with_shared
def erase(shared: Shared, key: str, sort_key: str | None, scope: str, force: bool, yes: bool) -> None:
    """Delete the row of KEY, with its data, its attributes and a stored result, if nobody uses it.

    KEY is the row's key, as `ls` shows it, or with --scope the event's. An event that was done runs again at its next
    delivery. A lock, a semaphore or a rate limit starts anew. Deletes exactly the row that was read: what is taken
    meanwhile is left alone. Exits with 1 if the row is in use. Backups, streams and logs keep what they have.

    \b
    Examples:
      lambda-lock erase 'customer#4711'
      lambda-lock erase sku-7 --scope prices
      lambda-lock erase imports --force     # stop who works under it first
    """
    with shared.client() as client:
        session = session_of(client)
        place = erasing.place_of(session, key, scope, sort_key)
        item = run(client, Operation(place, lambda talk: talk.ask(requests.read(place)))).item
        if item and force and not yes:
            confirm(LockRecord(place.view(item), place, None), None, "erase")
        try:
            if item and force:
                done = run(client, Operation(place, lambda talk: erasing.delete(place, item, talk)))
            else:
                done = client.erase(key, scope=scope, sort_key=sort_key)
        except LockNotGrantedError as error:
            raise Failure(_in_words(error)) from error
        except LockFormatError as error:
            raise Failure(_in_words(error), CONFIGURATION) from error
    said = f"erased row {place.key!r}" if done else f"there is no row {place.key!r}: there was nothing to erase"
    if not done and not scope:
        said += ". If KEY is an event's and not the row's, pass --scope as well. `ls` shows the rows' keys"
    shared.report({"erased": done}, said)


def _in_words(error: Exception) -> str:
    return exits.in_words_of_options(str(error)).replace("pass force=True", "use --force")
