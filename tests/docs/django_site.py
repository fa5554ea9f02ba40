"""The settings and the routes of the Django site that snippets serve."""

from typing import Any

from django.http import JsonResponse  # type: ignore[import-untyped]
from django.urls import path  # type: ignore[import-untyped]

SECRET_KEY = "snippets"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = __name__


def invoice(request: Any, customer_id: str) -> Any:
    return JsonResponse({"customer": customer_id}, status=201)


urlpatterns = [path("customers/<customer_id>/invoices", invoice)]
