"""Batches of SQS, Kinesis and DynamoDB streams: each record once, and returned where it could not be done.

    from lambda_lock.batch import process_sqs

    def handler(event, context):
        return process_sqs(event, order, context=context, lock_key="customer#{body[customer_id]}")

The event source mapping needs ReportBatchItemFailures: without it Lambda takes any answer for success, and deletes the
messages that were to come back.
"""

from .process import process_sqs, process_stream, sqs_batch

__all__ = ["process_sqs", "process_stream", "sqs_batch"]
