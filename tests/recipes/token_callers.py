"""Callers of an API whose token was revoked, with the page's own code: ``python -m tests.recipes.token_callers``.

The arguments are the heading of the program, the provider's address, and how many call it at once. It prints what they
were answered.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .pages import program_of


def ask(url: str) -> tuple[int, Any]:
    """Post to the provider. Returns status and JSON."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, b""), timeout=120) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


def main(heading: str, provider: str, count: int) -> None:
    app = program_of("compute-once.md", heading)
    pool = ThreadPoolExecutor(2 * count)

    def fetch(account: str) -> Any:
        return ask(f"{provider}/refresh")[1]

    def request(token: str) -> int:
        return ask(f"{provider}/call/{token}")[0]

    async def fetch_async(account: str) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, fetch, account)

    async def request_async(token: str) -> int:
        return await asyncio.get_running_loop().run_in_executor(pool, request, token)

    async def call_all() -> list[int]:
        return await asyncio.gather(*(app.call("acme", request_async) for _ in range(count)))

    if asyncio.iscoroutinefunction(app.fetch_token):
        app.fetch_token = fetch_async
        answers = asyncio.run(call_all())
    else:
        app.fetch_token = fetch
        answers = list(pool.map(lambda _: app.call("acme", request), range(count)))
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
