"""`make deploy-local`: the app of infra/, deployed by the CDK's command line to an engine that enforces IAM, and used.

Messages, events and invocations go in; what they did is read from the app's own table.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import events
from .cdk import DEPLOYED, Cdk, CdkError, check_installed
from .cloud import Cloud
from .engine import EngineError, Ministack
from .lambda_runtime import FunctionError
from .sample import FUNCTIONS, Sample, left

HOLDS, BROKEN, NOT_RUN, INTERRUPTED = 0, 1, 2, 130  # exit statuses
FOUR_ACTIONS = ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
_WAIT_SECONDS = 90.0


class Report:
    """Writes a line for each step and each finding, as it happens."""

    def __init__(self) -> None:
        self.failures = 0
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        self._write(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def expect(self, claim: str, found: object, expected: object) -> None:
        if found == expected:
            self._write(f"          ok   {claim}")
            return
        self.failures += 1
        self._write(
            f"          NOT  {claim}\n                 found:    {found!r}\n                 expected: {expected!r}"
        )

    def _write(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main() -> int:
    report = Report()
    try:
        check_installed()
        with (
            tempfile.TemporaryDirectory(prefix="lambda-lock-deploy-") as folder,
            Ministack(auth=True, services=DEPLOYED) as engine,
            Cloud(engine) as cloud,
        ):
            run(report, cloud, Path(folder))
    except (CdkError, EngineError, FunctionError, TimeoutError) as error:
        sys.stderr.write(f"The app could not be deployed and used: {error}\n")
        return NOT_RUN
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return INTERRUPTED
    report.step(f"done: {report.failures} of the above did not hold" if report.failures else "done: all of it holds")
    return BROKEN if report.failures else HOLDS


def run(report: Report, cloud: Cloud, folder: Path) -> None:
    """Deploy, use, deploy again and destroy. Raises what `main` catches where that was not possible."""
    layer = folder / "opt" / "python"
    local = {"AWS_ENDPOINT_URL": cloud.engine.url, "PYBIN": sys.executable, "PYTHONPATH": str(layer)}
    cdk = Cdk(cloud, folder, local)
    report.step("cdk synth: the app of infra/")
    assembly = cdk.synth("first")
    report.step("cdk deploy: to an engine that enforces IAM")
    sample = Sample(cloud, cdk.deploy(assembly))
    sample.unpack_layer(layer.parent)
    try:
        check_permissions(report, sample)
        check_queues(report, sample)
        check_rule(report, sample)
        check_schedule(report, sample)
        check_denial(report, sample, layer)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{sample.lines()}") from error
    check_redeploy(report, cdk)
    check_destroy(report, cdk, sample, assembly)


def check_permissions(report: Report, sample: Sample) -> None:
    report.step("the roles of the functions, as they are deployed")
    for name in FUNCTIONS:
        report.expect(f"{name}: four permissions on the lock table", sample.actions_on_locks(name), FOUR_ACTIONS)
        report.expect(f"{name}: no managed policy", sample.managed_policies(name), [])


def check_queues(report: Report, sample: Sample) -> None:
    orders = [{"customer_id": f"c-{number % 2}", "order_id": f"o-{number}"} for number in range(8)]
    payments = [{"payment_id": f"p-{number}"} for number in range(6)]
    report.step(f"{len(orders)} orders, two of them sent twice, and {len(payments)} payments in one FIFO group")
    sample.orders.send(*orders, *orders[:2])
    payment_id, *_ = sample.payments.send(*payments, group="c-0")
    sample.cloud.wait_until(lambda: sample.orders.is_empty() and sample.payments.is_empty(), _WAIT_SECONDS)
    for customer in ("c-0", "c-1"):
        sent = [f"order {order['order_id']}" for order in orders if order["customer_id"] == customer]
        report.expect(f"the orders of {customer}: once each", sorted(postings(sample, customer, "order")), sent)
    in_order = [f"payment {payment['payment_id']}" for payment in payments]
    report.expect("the payments: once each, in their order", postings(sample, "c-0", "payment"), in_order)
    again = events.sqs_fifo([("c-0", payments[0])])
    again["Records"][0]["messageId"] = payment_id
    answer = sample.function("Payments").invoke(again)
    report.expect("the first payment, delivered again: accepted", answer, {"batchItemFailures": []})
    report.expect("and not done again", postings(sample, "c-0", "payment"), in_order)


def check_rule(report: Report, sample: Sample) -> None:
    report.step("an event through the rule, and the same event once more")
    detail = {"customer_id": "c-2", "invoice_id": "i-1"}
    event_id = sample.cloud.put_event("com.example.billing", "InvoiceRequested", detail)
    sample.cloud.wait_until(lambda: sample.postings("c-2"), _WAIT_SECONDS)
    sample.function("Invoices").invoke(events.eventbridge(detail, event_id))
    report.expect("the invoice: once", sample.postings("c-2"), ["invoice i-1"])


def check_schedule(report: Report, sample: Sample) -> None:
    report.step("the nightly report, invoked twice at once")
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(sample.function("Report").invoke, [{}, {}]))
    report.expect("one ran, the other was skipped", sorted(answers, key=str), [None, "reported"])
    report.expect("there is one report", len(sample.postings("report#nightly")), 1)


def check_denial(report: Report, sample: Sample, layer: Path) -> None:
    missing = "dynamodb:UpdateItem"
    report.step(f"the report, its role without {missing}")
    policies = sample.policies("Report")
    sample.put_policies("Report", sample.without(missing, policies))
    try:
        sample.function("Report").invoke({})
        report.expect("it fails", False, True)
    except FunctionError as error:
        report.expect("it fails, and says that it is the configuration", error.type, "LockConfigurationError")
        for name in (missing, "LockTable.grant"):
            report.expect(f"the error names {name}", name if name in error.message else error.message, name)
        frames = [line for line in error.trace if "lambda_lock/" in line]
        report.expect("the library is the layer's", {str(layer) in frame for frame in frames}, {True})
    sample.put_policies("Report", policies)
    report.expect("with it the report runs again", sample.function("Report").invoke({}), "reported")


def check_redeploy(report: Report, cdk: Cdk) -> None:
    report.step("cdk synth, deploy and diff once more")
    assembly = cdk.synth("second")
    cdk.deploy(assembly)
    said = cdk.diff(assembly)
    nothing = "There were no differences"
    report.expect("nothing has changed", nothing if nothing in said else said, nothing)


def check_destroy(report: Report, cdk: Cdk, sample: Sample, assembly: Path) -> None:
    report.step("cdk destroy")
    rows = sample.cloud.engine.scan(sample.lock_table)
    cdk.destroy(assembly)
    report.expect("nothing but the lock table is left", left(sample.cloud), {"tables": [sample.lock_table]})
    report.expect(f"with its {len(rows)} rows", (sample.cloud.engine.scan(sample.lock_table), bool(rows)), (rows, True))


def postings(sample: Sample, customer: str, kind: str) -> list[str]:
    return [posting for posting in sample.postings(customer) if posting.startswith(kind)]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))  # so that what was started is stopped
    sys.exit(main())
