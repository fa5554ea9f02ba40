const locks = new dynamodb.TableV2(this, 'Locks', {
  partitionKey: { name: 'key', type: dynamodb.AttributeType.STRING },
  timeToLiveAttribute: 'ttl',
  deletionProtection: true,
  pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
});
locks.grant(fn, 'dynamodb:GetItem', 'dynamodb:PutItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
fn.addEnvironment('LAMBDA_LOCK_TABLE', locks.tableName);
fn.addEnvironment('LAMBDA_LOCK_METRICS', 'lambda_lock');
