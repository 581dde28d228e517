from dataclasses import fields

import pytest

from wye.training.constituency.recipe import Recipe


def test_stanza_understands_every_argument() -> None:
    pytest.importorskip("stanza", reason="Stanza is an optional extra")
    from stanza.models import constituency_parser  # noqa: PLC0415

    args = constituency_parser.parse_args(Recipe(hidden=48).stanza_arguments("v.pt", "folder"))
    assert args["hidden_size"] == 48
    assert args["multistage"] is False
    assert args["retag_package"] is None
    assert args["rare_word_unknown_frequency"] == Recipe().unknown


def test_every_setting_is_explained() -> None:
    assert Recipe.__doc__ is not None
    for field in fields(Recipe):
        assert f"\n        {field.name}: " in Recipe.__doc__
