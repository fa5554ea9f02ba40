"""What a signal handler raises is the application's, whatever its class is: it propagates, and nothing stays held."""

from __future__ import annotations

import itertools
import signal

import pytest

from rig.wire import Wire
from tests.support.sampled import sampled
from tests.support.waiting import wait_until

from .rounds import PATIENCE
from .test_stopping import is_free, let_go, worker

CLIENTS = {
    "https": "LockClient()",
    "boto3": "LockClient(boto3_session=boto3.Session())",
    "the user's client, which retries": "LockClient(boto3_client=boto3.client('dynamodb'))",
    "one that retries in the standard mode": "LockClient(boto3_client=boto3.client('dynamodb', config=Config("
    "retries={'mode': 'standard', 'total_max_attempts': 5})))",
}
LIMITS = {
    "an alarm": "TimeoutError",
    "a lost connection": "type('Dropped', (ConnectionResetError,), {})",
    "a time limit": "type('JobTimeoutException', (Exception,), {})",
    "a bad value": "ValueError",
    "an error of boto3": "type('Stopped', (HTTPClientError,), {'__init__': lambda self: None})",
    "no answer for another lock": "functools.partial(TransportError, True)",
    "a release of another lock": "LockAlreadyReleasedError",
    "contention of another lock": "functools.partial(LockNotGrantedError, 'another lock is held')",
}
PAIRS = [("https", limit) for limit in LIMITS] + [
    ("boto3", "a lost connection"),
    ("boto3", "a time limit"),
    ("the user's client, which retries", "an alarm"),
    ("one that retries in the standard mode", "a time limit"),
]
PRELUDE = """
import boto3, ctypes, functools
from botocore.config import Config
from botocore.exceptions import HTTPClientError
from lambda_lock import with_lock
from lambda_lock.errors import LockAlreadyReleasedError, LockNotGrantedError, TransportError
Limit = {limit}
raised = Limit()
def over(number, frame):
    raise raised
signal.signal(signal.SIGUSR1, over)
client = {client}
client.prewarm()
def tell(act):
    try:
        act()
    except BaseException as error:
        print(error is raised or repr(error), flush=True)
    else:
        print("went on", flush=True)
    stay()
"""
ACQUIRING = """
ready()
tell(lambda: client.acquire("a", lease_duration=600))
"""
TRYING = """
ready()
tell(lambda: client.try_acquire("a", lease_duration=600))
"""
SKIPPING = """
@with_lock("a", client=client, lease_duration=600, on_not_granted="skip", on_unavailable="run")
def work():
    print("it ran", flush=True)
ready()
tell(work)
"""
RELEASING = """
lock = client.acquire("a", lease_duration=600)
ready()
tell(lock.release)
"""
LEAVING = """
@with_lock("a", client=client, lease_duration=600)
def work():
    ready()
tell(work)
"""


def check_claim(script: str, table: str, wire: Wire, struck: bool = False) -> None:
    """What is raised in a claim that was carried out and is not answered propagates, and the lock is free.

    struck: whether the worker does that itself. Otherwise it gets a signal.
    """
    delayed = wire.delay_reply("UpdateItem")
    with worker(script) as process, let_go(delayed):
        wait_until(lambda: not is_free(table, "a"))
        if not struck:
            process.send_signal(signal.SIGUSR1)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert is_free(table, "a")


@pytest.mark.parametrize(("client", "limit"), sampled(5, PAIRS))
def test_what_a_handler_raises_in_a_claim_propagates_and_the_lock_is_free(client, limit, table, wire):
    script = PRELUDE.format(client=CLIENTS[client], limit=LIMITS[limit]) + ACQUIRING
    check_claim(script, table, wire)


@pytest.mark.parametrize("how", [TRYING, SKIPPING], ids=["try_acquire", "on_not_granted, on_unavailable"])
@pytest.mark.parametrize("limit", ["an alarm", "contention of another lock"])
def test_what_a_handler_raises_is_neither_contention_nor_an_outage(how, limit, table, wire):
    script = PRELUDE.format(client="LockClient()", limit=LIMITS[limit]) + how
    check_claim(script, table, wire)


@pytest.mark.parametrize("how", [RELEASING, LEAVING], ids=["release", "the end of with_lock"])
@pytest.mark.parametrize(("client", "limit"), sampled(5, PAIRS))
def test_what_a_handler_raises_in_a_release_propagates_and_the_lock_is_free(client, limit, how, table, wire):
    numbers = itertools.count(1)
    held_up = wire.hold("UpdateItem", when=lambda _: next(numbers) == 2)  # the claim is the first one
    script = PRELUDE.format(client=CLIENTS[client], limit=LIMITS[limit]) + how
    with worker(script) as process, let_go(held_up):
        assert held_up.reached.wait(PATIENCE)
        process.send_signal(signal.SIGUSR1)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert is_free(table, "a")


HANDLERS = {
    "one that deletes what it is given": "def handle(number, frame):\n    del number, frame\n    raise raised",
    "one that forgets the frame": "def handle(number, frame):\n    frame = None\n    raise raised",
    "one that calls another": "def inner():\n    raise raised\ndef handle(*_):\n    inner()",
    "a partial": "def other(limit, number, frame):\n    del frame\n    raise limit\n"
    "handle = functools.partial(other, raised)",
    "a method": "class Limits:\n    def over(self, number, frame):\n        del frame\n        raise raised\n"
    "handle = Limits().over",
    "an object": "class Limits:\n    def __call__(self, number, frame):\n        del frame\n        raise raised\n"
    "handle = Limits()",
    "a lambda": "handle = lambda *_: (_ for _ in ()).throw(raised)",
}


@pytest.mark.parametrize("handler", sampled(4, zip(HANDLERS)))
@pytest.mark.parametrize("client", ["https", "boto3"])
def test_handlers_of_every_form_are_told(client, handler, table, wire):
    script = PRELUDE.format(client=CLIENTS[client], limit="functools.partial(TimeoutError, 'over')")
    script += HANDLERS[handler] + "\nsignal.signal(signal.SIGUSR1, handle)\n" + ACQUIRING
    check_claim(script, table, wire)


INJECTED = """
Limit = TimeoutError
ready()
def strike():
    while client.get("a") is None:
        pass
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Limit))
main = threading.get_ident()
threading.Thread(target=strike, daemon=True).start()
def act():
    try:
        client.acquire("a", lease_duration=600)
    except Limit as error:
        raise raised
tell(act)
"""


@pytest.mark.parametrize("client", ["https", "boto3"])
def test_what_another_thread_injects_into_a_claim_propagates_and_the_lock_is_free(client, table, wire):
    check_claim(PRELUDE.format(client=CLIENTS[client], limit="Exception") + INJECTED, table, wire, struck=True)


# Takes and releases locks while a timer goes off at ever other moments. What is raised must be what the handler raised.
OFTEN = """
client.acquire("warm").release()
started = time.perf_counter()
client.acquire("warm").release()
cycle = time.perf_counter() - started
def over_outside_destructors(number, frame):
    at = frame
    while at is not None:
        if at.f_code.co_name in ("close", "closed", "__del__"):  # Python raises nothing from destructors
            signal.setitimer(signal.ITIMER_REAL, cycle / 100)
            return
        at = at.f_back
    raise raised
signal.signal(signal.SIGALRM, over_outside_destructors)
ready()
for number in range({moments}):
    raised = Limit()
    try:
        signal.setitimer(signal.ITIMER_REAL, cycle * 1.1 * (number + 1) / {moments})
        with client.acquire(f"a {{number}}", lease_duration=600):
            pass
        time.sleep(10 * cycle)
        print(number, "was swallowed", flush=True)
    except BaseException as error:
        if error is not raised:
            print(number, repr(error), flush=True)
client.close()
left = [record.key for record in LockClient().list() if not record.is_released]
print("left:", left, flush=True)
"""


@pytest.mark.parametrize(("client", "limit"), sampled(2, [("https", "an alarm"), ("boto3", "a time limit")]))
def test_at_every_moment_of_a_block_it_propagates_and_closing_the_client_leaves_nothing_held(client, limit, table):
    script = PRELUDE.format(client=CLIENTS[client], limit=LIMITS[limit]) + OFTEN.format(moments=100)
    with worker(script) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert out == "left: []\n"
