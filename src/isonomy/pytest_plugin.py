"""Where installations of earlier versions look for the plugin: see `isonomy.integrations.pytest_plugin`."""

from isonomy.integrations.pytest_plugin import pytest_addoption, pytest_collection_modifyitems

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]
