resource "aws_dynamodb_table" "locks" {
  name                        = "locks"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "key"
  deletion_protection_enabled = true

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

data "aws_iam_policy_document" "locks" {
  statement {
    effect    = "Allow"
    actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
    resources = [aws_dynamodb_table.locks.arn]
  }
}

resource "aws_iam_role_policy" "locks" {
  name   = "locks"
  role   = aws_iam_role.function.id
  policy = data.aws_iam_policy_document.locks.json
}

resource "aws_lambda_function" "function" {
  function_name = "function"
  filename      = "function.zip"
  handler       = "app.handler"
  runtime       = "python3.13"
  role          = aws_iam_role.function.arn

  environment {
    variables = {
      LAMBDA_LOCK_TABLE   = aws_dynamodb_table.locks.name
      LAMBDA_LOCK_METRICS = "lambda_lock"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "locks" {
  for_each = {
    LockLost     = [1, 1]
    LockFailed   = [1, 1]
    LockDisabled = [1, 1]
    TokenFell    = [1, 1]
    RateLimited  = [12, 7]
  }

  alarm_name          = "locks-${each.key}"
  namespace           = "lambda_lock"
  metric_name         = each.key
  dimensions          = { Table = aws_dynamodb_table.locks.name }
  statistic           = "Sum"
  period              = 300
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = each.value[0]
  datapoints_to_alarm = each.value[1]
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}
