"""Processes that contend for one lock: throughput, waits, requests and order, compared with other libraries."""
