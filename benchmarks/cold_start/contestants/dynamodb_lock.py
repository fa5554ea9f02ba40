"""python-dynamodb-lock, used as in its documentation."""

import os
import sys

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient

from benchmarks.cold_start.contestants.harness import held

client = DynamoDBLockClient(boto3.resource("dynamodb"), table_name=os.environ["BENCHMARK_TABLE"])
lock = client.acquire_lock(f"order#{sys.argv[1]}")
held()
lock.release()
client.close()
