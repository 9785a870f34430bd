"""What all tests share: how the browser tests meet a machine without a browser."""

from __future__ import annotations

import os
import shutil

import pytest

from pipeline.doctor import BROWSERS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Chromium the browser tests are skipped, visibly; where CI=true they are left to fail."""
    if os.environ.get("CI") == "true" or any(shutil.which(name) for name in BROWSERS):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="there is no Chromium on this machine"))
