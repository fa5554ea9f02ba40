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

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_sqs_queue" "waker" {
  name                       = "locks-waker"
  message_retention_seconds  = 86400
  sqs_managed_sse_enabled    = true
  visibility_timeout_seconds = 90
}

data "aws_iam_policy_document" "waker_queue" {
  statement {
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.waker.arn]

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
  queue_url = aws_sqs_queue.waker.id
  policy    = data.aws_iam_policy_document.waker_queue.json
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

resource "aws_iam_role_policy_attachment" "waker_logs" {
  role       = aws_iam_role.waker.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
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

  depends_on = [aws_iam_role_policy.waker]
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
}

locals {
  waker_alarms = {
    Errors                        = { namespace = "AWS/Lambda", of = "FunctionName", statistic = "Sum", threshold = 0 }
    IteratorAge                   = { namespace = "AWS/Lambda", of = "FunctionName", statistic = "Maximum", threshold = 60000 }
    ApproximateAgeOfOldestMessage = { namespace = "AWS/SQS", of = "QueueName", statistic = "Maximum", threshold = 1200 }
  }
}

resource "aws_cloudwatch_metric_alarm" "waker" {
  for_each            = local.waker_alarms
  alarm_name          = "locks-waker-${each.key}"
  namespace           = each.value.namespace
  metric_name         = each.key
  dimensions          = { (each.value.of) = "locks-waker" }
  statistic           = each.value.statistic
  period              = 60
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}
