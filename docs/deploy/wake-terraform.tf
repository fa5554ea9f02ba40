resource "aws_dynamodb_table" "locks" {
  name                        = "locks"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "key"
  deletion_protection_enabled = true
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"

  attribute {
    name = "key"
    type = "S"
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_sqs_queue" "waker_dead_letters" {
  name                      = "locks-waker-dead-letters"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue" "waker" {
  name                       = "locks-waker"
  message_retention_seconds  = 86400
  sqs_managed_sse_enabled    = true
  visibility_timeout_seconds = 90

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.waker_dead_letters.arn
    maxReceiveCount     = 100
  })
}

data "aws_iam_policy_document" "waker_queue" {
  for_each = { queue = aws_sqs_queue.waker, dead_letters = aws_sqs_queue.waker_dead_letters }

  statement {
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [each.value.arn]

    principals {
      type        = "AWS"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "waker" {
  for_each  = { queue = aws_sqs_queue.waker, dead_letters = aws_sqs_queue.waker_dead_letters }
  queue_url = each.value.id
  policy    = data.aws_iam_policy_document.waker_queue[each.key].json
}

resource "aws_cloudwatch_log_group" "waker" {
  name              = "/aws/lambda/locks-waker"
  retention_in_days = 30
}

resource "aws_lambda_layer_version" "lambda_lock" {
  layer_name          = "lambda-lock"
  filename            = "build/lambda-lock-layer.zip"
  source_code_hash    = filebase64sha256("build/lambda-lock-layer.zip")
  compatible_runtimes = ["python3.13"]
}

data "archive_file" "waker" {
  type                    = "zip"
  output_path             = "build/waker.zip"
  source_content          = "from lambda_lock.waker import handler\n"
  source_content_filename = "index.py"
}

data "aws_iam_policy_document" "waker" {
  statement {
    effect    = "Allow"
    actions   = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
    resources = [aws_dynamodb_table.locks.stream_arn]
  }

  statement {
    effect    = "Allow"
    actions   = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    resources = [aws_sqs_queue.waker.arn]
  }

  statement {
    effect    = "Allow"
    actions   = ["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
    resources = [aws_sqs_queue.waker_dead_letters.arn]
  }

  statement {
    effect    = "Allow"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.waker.arn}:*"]
  }

  statement {
    effect    = "Allow"
    actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.locks.arn]
  }

  statement { # each state machine whose executions sleep
    effect    = "Allow"
    actions   = ["states:SendTaskSuccess"]
    resources = [aws_sfn_state_machine.orders.arn]
  }

  statement { # each durable function
    effect    = "Allow"
    actions   = ["lambda:SendDurableExecutionCallbackSuccess"]
    resources = ["${aws_lambda_function.durable.arn}:*"]
  }
}

resource "aws_iam_role" "waker" {
  name               = "locks-waker"
  assume_role_policy = data.aws_iam_policy_document.lambda.json
}

resource "aws_iam_role_policy" "waker" {
  name   = "waker"
  role   = aws_iam_role.waker.id
  policy = data.aws_iam_policy_document.waker.json
}

resource "aws_lambda_function" "waker" {
  function_name    = "locks-waker"
  filename         = data.archive_file.waker.output_path
  source_code_hash = data.archive_file.waker.output_base64sha256
  handler          = "index.handler"
  runtime          = "python3.13"
  architectures    = ["arm64"]
  layers           = [aws_lambda_layer_version.lambda_lock.arn]
  memory_size      = 512
  timeout          = 60
  role             = aws_iam_role.waker.arn

  environment {
    variables = {
      LAMBDA_LOCK_TABLE      = aws_dynamodb_table.locks.name
      LAMBDA_LOCK_METRICS    = "lambda_lock"
      LAMBDA_LOCK_WAKE       = "1"
      LAMBDA_LOCK_WAKE_QUEUE = aws_sqs_queue.waker.url
    }
  }

  depends_on = [aws_iam_role_policy.waker, aws_cloudwatch_log_group.waker]
}

resource "aws_lambda_function_recursion_config" "waker" { # Lambda would end the looks after 16
  function_name  = aws_lambda_function.waker.function_name
  recursive_loop = "Allow"
}

resource "aws_lambda_event_source_mapping" "waker_stream" {
  function_name                  = aws_lambda_function.waker.arn
  event_source_arn               = aws_dynamodb_table.locks.stream_arn
  starting_position              = "TRIM_HORIZON"
  batch_size                     = 100
  bisect_batch_on_function_error = true
  maximum_record_age_in_seconds  = 3600
  function_response_types        = ["ReportBatchItemFailures"]

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.waker_dead_letters.arn
    }
  }

  metrics_config {
    metrics = ["EventCount"]
  }

  filter_criteria {
    filter {
      pattern = jsonencode({ dynamodb = { NewImage = { newest = { S = [{ exists = true }] } } } })
    }

    filter {
      pattern = jsonencode({ dynamodb = { NewImage = { sleepers = { N = [{ exists = true }] }, isReleased = { S = ["1"] } } } })
    }

    filter {
      pattern = jsonencode({ dynamodb = { NewImage = { sleepers = { N = [{ exists = true }] }, ownerName = { S = ["semaphore"] } } } })
    }
  }
}

resource "aws_lambda_event_source_mapping" "waker_due" {
  function_name           = aws_lambda_function.waker.arn
  event_source_arn        = aws_sqs_queue.waker.arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]

  metrics_config {
    metrics = ["EventCount"]
  }
}

locals {
  waker = { FunctionName = "locks-waker" }
  due   = { QueueName = "locks-waker" }
  dead  = { QueueName = "locks-waker-dead-letters" }

  waker_alarms = {
    Errors                             = { namespace = "AWS/Lambda", of = local.waker, statistic = "Sum", threshold = 0 }
    IteratorAge                        = { namespace = "AWS/Lambda", of = local.waker, statistic = "Maximum", threshold = 60000 }
    ApproximateAgeOfOldestMessage      = { namespace = "AWS/SQS", of = local.due, statistic = "Maximum", threshold = 1200 }
    ApproximateNumberOfMessagesVisible = { namespace = "AWS/SQS", of = local.dead, statistic = "Maximum", threshold = 0 }
  }
}

resource "aws_cloudwatch_metric_alarm" "waker" {
  for_each            = local.waker_alarms
  alarm_name          = "locks-waker-${each.key}"
  namespace           = each.value.namespace
  metric_name         = each.key
  dimensions          = each.value.of
  statistic           = each.value.statistic
  period              = 60
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_metric_alarm" "waker_off" {
  for_each = {
    stream = aws_lambda_event_source_mapping.waker_stream.uuid
    queue  = aws_lambda_event_source_mapping.waker_due.uuid
  }

  alarm_name          = "locks-waker-${each.key}-off"
  namespace           = "AWS/Lambda"
  metric_name         = "PolledEventCount"
  dimensions          = { EventSourceMappingUUID = each.value }
  statistic           = "SampleCount"
  period              = 300
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "breaching" # a mapping that is off has no metric
  alarm_actions       = [aws_sns_topic.alarms.arn]
}
