"""The program that cdk.json starts. It synthesizes the app."""

from __future__ import annotations

import aws_cdk as cdk

from .app import build

if __name__ == "__main__":
    app = cdk.App()
    build(app)
    app.synth()
