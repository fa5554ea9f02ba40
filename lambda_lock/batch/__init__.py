"""Processes batches from SQS, Kinesis, DynamoDB streams and Kafka. Each record is done once, or returned to its source.

    from lambda_lock.batch import process_sqs

    def handler(event, context):
        return process_sqs(event, order, context=context, lock_key="customer#{body[customer_id]}")

The event source mapping needs ReportBatchItemFailures. Without it, Lambda takes any answer for success and deletes the
messages that should come back.
"""

from .process import kafka_batch, process_kafka, process_sqs, process_stream, sqs_batch

__all__ = ["kafka_batch", "process_kafka", "process_sqs", "process_stream", "sqs_batch"]
