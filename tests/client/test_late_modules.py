"""A long-lived process loads nothing late: its files may have been replaced, or no file descriptor may be left."""

from tests.support.elsewhere import ran

# After the client was made and has its connection, nothing more can be imported.
SCRIPT = """
import sys
from lambda_lock import LockClient
from lambda_lock.errors import LockConfigurationError, LockError, LockNotGrantedError, LockLostError
client, other = LockClient(hooks=()), LockClient()
client.prewarm()
class Refuse:
    def find_spec(self, name, *_):
        raise ModuleNotFoundError(f"{name} is not there any more", name=name)
sys.meta_path.insert(0, Refuse())
lock = client.acquire("a", lease_duration=5)
assert other.try_acquire("a") is None
assert other.try_acquire("a", wait=0.3) is None
string = lock.hand_over()
other.adopt(string).release()
try:
    other.adopt(string)
except LockLostError:
    pass
with client.acquire_all(["b", "c"]), client.acquire("d", permits=2):
    assert client.get("d").holders
client.rate_limit("r", 1)
assert not client.forget("e")
assert not client.erase("e")
with client.acquire("f") as lock:
    lock.heartbeat(data=b"x")
    lock.commit([{"Put": {"TableName": sys.argv[1], "Item": {"key": {"S": "written"}}}}])
kept = client.acquire("g", safe_time=1, on_danger=print)
try:
    LockClient("not-there").acquire("a")
except LockConfigurationError as error:
    print(error)
client.close()
other.close()
print("ended")
"""


def test_nothing_is_imported_after_a_client_was_made(table):
    assert ran(SCRIPT, table).endswith("ended\n")


EXHAUSTED = """
import os
from lambda_lock import LockClient, TransportError
client = LockClient()
kept = client.acquire("a")
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
other = LockClient()
try:
    other.acquire("b", wait=0)
except TransportError as error:
    print(type(error).__name__)
other.close()
client.close()
print(kept.is_held)
"""

CHANGED = """
import sys
class Refuse:
    def find_spec(self, name, *_):
        if name == "lambda_lock.client.closing":
            raise ModuleNotFoundError(f"{name} is not there any more", name=name)
sys.meta_path.insert(0, Refuse())
from lambda_lock import LockClient, LockConfigurationError
try:
    LockClient()
except LockConfigurationError as error:
    print(error, type(error.__cause__).__name__)
"""


def test_without_a_file_descriptor_an_acquire_gets_no_answer_and_the_client_closes(table):
    assert ran(EXHAUSTED, within=("bash", "-c", 'ulimit -n 64; exec "$0" "$@"')) == "TransportError\nFalse\n"


def test_a_module_that_is_not_there_any_more_is_told_with_its_remedy(table):
    told = ran(CHANGED)
    assert "as by an upgrade: restart it" in told
    assert told.endswith("ModuleNotFoundError\n")
