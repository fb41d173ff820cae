"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import ilba

MODULES = sorted(module.name for module in pkgutil.walk_packages(ilba.__path__, "ilba."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_say(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_method_and_the_secret_are_shown_by_examples():
    for name, least in (("ilba.methods.masking", 9), ("ilba.secret.secret", 3), ("ilba.attack.audit", 1)):
        assert doctest.testmod(importlib.import_module(name)).attempted >= least
