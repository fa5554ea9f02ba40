"""lambda_lock, used as in an application, in a process that can be killed or stopped."""

from typing import Any

from lambda_lock import GO, JAVA, PYTHON, Lock, LockClient
from tests.interop.talk import Answer, Talker

_SCHEMAS = {schema.name: schema for schema in (JAVA, GO, PYTHON)}


class OurPeer(Talker):
    def open(
        self, *, table: str, lease: float, heartbeat: float, sort_key_name: str | None = None, schema: str = "JAVA"
    ) -> None:
        def client(period: float) -> LockClient:
            times: dict[str, Any] = {"ttl": None, "lease_duration": lease, "heartbeat_period": period}
            return LockClient(table, schema=_SCHEMAS[schema], sort_key_name=sort_key_name, **times)

        self.lease = lease
        self.clients = {False: client(heartbeat), True: client(0)}

    def take(self, key: str, *, silent: bool, wait: float, refresh: float, data: str | None = None, **_: Any) -> Lock:
        wait, stored = self.lease + wait if wait else 0, None if data is None else data.encode()
        return self.clients[silent].acquire(key, wait=wait, refresh_period=refresh, data=stored)

    def give_back(self, handle: Lock, data: str | None = None) -> bool:
        return handle.release(data=None if data is None else data.encode())

    def is_fresh(self, handle: Lock) -> bool:
        return handle.remaining > 0.4 * self.lease

    def read(self, key: str, sort_key: str | None = None) -> Answer:
        record = self.clients[False].get(key, sort_key=sort_key)
        return {"absent": True} if record is None else {"owner": record.owner, "version": record.version}


if __name__ == "__main__":
    OurPeer().talk()
