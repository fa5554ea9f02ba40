"""The clients and their locks. The public classes are exported by `lambda_lock`; all else here is private."""
