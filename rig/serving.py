"""Lets uvicorn serve the engine's application, which takes half the time that its usual server takes for a request.

The text of this module runs in the engine's own interpreter, behind that of lambda_lock.cli.guard, whose `guarded` it
calls. So it imports nothing of ours, nor from __future__.
"""

from collections.abc import Callable
from typing import Any


def serve_by_uvicorn(wrap: Callable[[Any], Any]) -> None:
    """Let this interpreter serve applications by uvicorn, each as ``wrap`` returns it, if uvicorn is there."""
    try:
        import hypercorn.asyncio
        import uvicorn
    except ImportError:  # an engine that somebody else has installed
        return

    async def serve(app: Any, config: Any) -> None:
        host, _, port = config.bind[0].rpartition(":")
        how = uvicorn.Config(
            wrap(app),
            host,
            int(port),
            http="httptools",
            ws="none",
            lifespan="on",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,  # the engine has it
        )
        await uvicorn.Server(how).serve()

    hypercorn.asyncio.serve = serve
