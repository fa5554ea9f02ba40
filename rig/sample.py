"""The app of infra/ as it is deployed: its queues, functions, roles and what its ledger says."""

from __future__ import annotations

import io
import json
import urllib.request
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .cloud import ACCOUNT, Cloud, Function, Queue
from .engine import REGION

FUNCTIONS = ("Orders", "Payments", "Invoices", "Report")
_REPORTED_LINES = 20

Policies = dict[str, dict[str, Any]]  # documents by name


class Sample:
    """The deployed app, as its outputs and the account have it."""

    def __init__(self, cloud: Cloud, outputs: dict[str, str]) -> None:
        self.cloud = cloud
        self.lock_table = outputs["LockTableOutput"]
        self._ledger_table = outputs["LedgerTableOutput"]
        self.orders, self.payments = (self._queue(outputs[f"{name}QueueUrlOutput"]) for name in ("Orders", "Payments"))
        self._configurations = {
            name: cloud.client("lambda").get_function_configuration(FunctionName=outputs[f"{name}FunctionOutput"])
            for name in FUNCTIONS
        }

    def function(self, name: str) -> Function:
        found = self._configurations[name]
        return Function(
            self.cloud.client("lambda"), self.cloud.client("logs"), found["FunctionName"], found["FunctionArn"]
        )

    def postings(self, customer: str) -> list[str]:
        """What the ledger has of a customer, in the order in which it was written."""
        rows = [row for row in self.cloud.engine.scan(self._ledger_table) if row["customer"]["S"] == customer]
        return [posting["S"] for row in rows for posting in row["postings"]["L"]]

    def unpack_layer(self, folder: Path) -> None:
        """Put the deployed layer where the functions look for it; on AWS that is Lambda's part."""
        (layer,) = {layer["Arn"] for found in self._configurations.values() for layer in found["Layers"]}
        location = self.cloud.client("lambda").get_layer_version_by_arn(Arn=layer)["Content"]["Location"]
        with urllib.request.urlopen(location, timeout=30) as archive:  # noqa: S310 - the engine's own
            zipfile.ZipFile(io.BytesIO(archive.read())).extractall(folder)

    def policies(self, name: str) -> Policies:
        """The policies of a function's role."""
        iam, role = self.cloud.client("iam"), self._role(name)
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        return {each: iam.get_role_policy(RoleName=role, PolicyName=each)["PolicyDocument"] for each in names}

    def put_policies(self, name: str, policies: Policies) -> None:
        iam, role = self.cloud.client("iam"), self._role(name)
        for each, document in policies.items():
            iam.put_role_policy(RoleName=role, PolicyName=each, PolicyDocument=json.dumps(document))

    def managed_policies(self, name: str) -> list[str]:
        """The names of the managed policies that a function's role has."""
        attached = self.cloud.client("iam").list_attached_role_policies(RoleName=self._role(name))["AttachedPolicies"]
        return [each["PolicyName"] for each in attached]

    def actions_on_locks(self, name: str) -> list[str]:
        """What a function may do with the lock table and its indexes, whatever the conditions are."""
        statements = [each for policy in self.policies(name).values() for each in policy["Statement"]]
        concerned = [each for each in statements if self._concerns_locks(each)]
        actions = [action for each in concerned for action in _listed(each["Action"])]
        return sorted({action for action in actions if action.startswith(("dynamodb:", "*"))})

    def without(self, action: str, policies: Policies) -> Policies:
        """The policies, without this action on the lock table."""

        def narrowed(statement: dict[str, Any]) -> dict[str, Any]:
            if not self._concerns_locks(statement):
                return statement
            return statement | {"Action": [each for each in _listed(statement["Action"]) if each != action]}

        return {
            name: document | {"Statement": [narrowed(statement) for statement in document["Statement"]]}
            for name, document in policies.items()
        }

    def lines(self) -> str:
        """The last lines of each function's log."""
        logs, parts = self.cloud.client("logs"), []
        for name, found in self._configurations.items():
            logged = logs.filter_log_events(logGroupName=found["LoggingConfig"]["LogGroup"])["events"]
            parts += [f"{name}:", *(event["message"] for event in logged[-_REPORTED_LINES:])]
        return "\n".join(parts)

    def _concerns_locks(self, statement: dict[str, Any]) -> bool:
        arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self.lock_table}"
        return any(fnmatchcase(arn, each) or each.startswith(arn) for each in _listed(statement["Resource"]))

    def _role(self, name: str) -> str:
        return str(self._configurations[name]["Role"].rpartition("/")[2])

    def _queue(self, url: str) -> Queue:
        return Queue(self.cloud.client("sqs"), url.rpartition("/")[2], url, None)


def left(cloud: Cloud) -> dict[str, list[str]]:
    """The names of the account's resources, by kind. A kind without any is left out."""
    kinds = {
        "tables": ("dynamodb", "list_tables", "TableNames", None),
        "stacks": ("cloudformation", "describe_stacks", "Stacks", "StackName"),
        "functions": ("lambda", "list_functions", "Functions", "FunctionName"),
        "layers": ("lambda", "list_layers", "Layers", "LayerName"),
        "mappings": ("lambda", "list_event_source_mappings", "EventSourceMappings", "EventSourceArn"),
        "queues": ("sqs", "list_queues", "QueueUrls", None),
        "rules": ("events", "list_rules", "Rules", "Name"),
        "roles": ("iam", "list_roles", "Roles", "RoleName"),
        "topics": ("sns", "list_topics", "Topics", "TopicArn"),
        "alarms": ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
        "dashboards": ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
        "log groups": ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    }
    found = {}
    for kind, (service, operation, member, name) in kinds.items():
        entries = getattr(cloud.client(service), operation)().get(member, [])
        found[kind] = [entry if name is None else entry[name] for entry in entries]
    return {kind: names for kind, names in found.items() if names}


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
