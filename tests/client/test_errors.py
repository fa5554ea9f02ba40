"""Errors carry their state, also to another process, and one base class catches them all."""

import copy
import pickle
from typing import Any

import pytest

import lambda_lock
from lambda_lock import errors
from lambda_lock.errors import LockError, LockNotGrantedError, TransportError
from tests.support.context import Context

CONTENTION = {"key": "a", "holder": "b#1", "waited": 1.5, "retry_after": 2.5}
STATES: list[tuple[type[LockError], dict[str, Any]]] = [
    (LockError, {"key": "a"}),
    (LockNotGrantedError, CONTENTION),
    (errors.LockTimeoutError, CONTENTION),
    (errors.RateLimitedError, {"key": "a", "retry_after": 3, "waited": 1.5}),
    (errors.LockLostError, {"key": "a", "holder": "b#1"}),
    (errors.LockAlreadyReleasedError, {"key": "a"}),
    (errors.OwnerMismatchError, {"key": "a"}),
    (errors.SessionMonitorNotSetError, {"key": "a"}),
    (errors.ClientClosedError, {"key": None}),
    (errors.LockConfigurationError, {"key": "a"}),
    (errors.LockArgumentError, {"key": "a"}),
    (errors.KeyTemplateError, {"key": None, "field": "detail[id]"}),
    (errors.LockFormatError, {"key": "a"}),
    (errors.DuplicateEventError, {"key": "a", "result": {"x": 1}, "completed_until": 5.0}),
    (errors.PayloadMismatchError, {"key": "a", "completed_until": 5.0}),
    (errors.CommitRefusedError, {"key": "a", "reasons": ("None", "ConditionalCheckFailed")}),
]


@pytest.mark.parametrize(("kind", "state"), STATES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_pickled_with_its_state(kind, state, protocol):
    error = kind("what happened", **state)
    for other in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == "what happened"
        assert {name: getattr(other, name) for name in state} == state
        assert isinstance(other, LockError)


@pytest.mark.parametrize("ambiguous", [True, False])
def test_a_transport_error_is_pickled_with_its_state(ambiguous):
    error = pickle.loads(pickle.dumps(TransportError(ambiguous, key="a")))
    assert (error.ambiguous, error.key) == (ambiguous, "a")
    assert str(error) == str(TransportError(ambiguous))


def test_no_error_class_is_left_out_here():
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LockError)}
    assert kinds == {kind for kind, _ in STATES} | {TransportError}
    assert {kind.__name__ for kind in kinds} <= set(lambda_lock.__all__)


def test_the_marker_of_an_error_that_is_no_contention_is_kept(client):
    with pytest.raises(LockNotGrantedError, match="ms are left before the invocation's deadline") as caught:
        client.try_acquire("a", context=Context(0.7))
    assert caught.value.too_late
    assert pickle.loads(pickle.dumps(caught.value)).too_late
