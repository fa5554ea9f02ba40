"""Compares deduplication in lambda_lock with the idempotency utility of Powertools, case by case."""
