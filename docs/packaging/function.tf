resource "aws_lambda_function" "function" {
  function_name    = "function"
  filename         = "function.zip"
  source_code_hash = filebase64sha256("function.zip")
  handler          = "app.handler"
  runtime          = "python3.13"
  architectures    = ["arm64"]
  role             = aws_iam_role.function.arn

  environment {
    variables = {
      LAMBDA_LOCK_TABLE   = aws_dynamodb_table.locks.name
      LAMBDA_LOCK_METRICS = "lambda_lock"
    }
  }
}
