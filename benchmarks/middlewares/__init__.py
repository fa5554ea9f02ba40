"""Compares how APIs answer repeated requests: lambda_lock, Powertools, and the best-known published middlewares."""
