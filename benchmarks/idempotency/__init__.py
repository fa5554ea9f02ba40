"""Dedup side by side: lambda_lock's decorators and the idempotency utility of Powertools, case by case."""
