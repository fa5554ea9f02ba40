"""A transport that says what it is told, whatever it is asked."""

from typing import Any

from lambda_lock.transport import Reply


class Saying:
    """Each request gets the next answer: an item, or an error that is raised. The last one goes on for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []

    def send(self, operation: str, request: dict[str, Any], *, timeout: float) -> Reply:
        self.requests.append(request)
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if hasattr(answer, "send"):  # another transport
            answer = answer.send(operation, request, timeout=timeout)
        return answer if isinstance(answer, Reply) else Reply(answer, None)
