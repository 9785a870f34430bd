"""What all tests share: how the browser tests meet a machine without a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pipeline.doctor import BROWSERS

if TYPE_CHECKING:
    from tests.e2e_visit import App


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The real page with the real engines, served once for all end-to-end tests: loading takes a while."""
    from tests.e2e_visit import serving

    with serving(tmp_path_factory.mktemp("app")) as served:
        yield served


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without Chromium the browser tests are skipped, visibly; where CI=true they are left to fail."""
    if os.environ.get("CI") == "true" or any(shutil.which(name) for name in BROWSERS):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="there is no Chromium on this machine"))
