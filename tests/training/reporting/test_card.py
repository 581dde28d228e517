from training.reporting.card import card
from training.reporting.contents import RouterReport
from training.reporting.formats import spread
from training.reporting.provenance import Provenance


def test_the_card_has_figures_with_their_command(report: RouterReport) -> None:
    text = card("mine", report, "9f2c", {"one": Provenance("One", "CC0", "written")})
    assert text.startswith("# Router: mine\n")
    assert report.judged is not None
    assert f"| auto | {spread(report.judged.mean('auto', 'nDCG@10'))}" in text
    assert "\n    wye train --questions one --questions other\n" in text
    assert "schema `9f2c`" in text
    assert "| one | One | CC0 | written | 90 | 90 | 40 |" in text
    assert "| other | own data | not stated | not stated | 60 | 60 | 20 |" in text
    assert "English" in text
    assert "| other | " in text.partition("## Limits")[2]


def test_a_router_that_was_not_judged_says_so(unjudged: RouterReport) -> None:
    text = card("mine", unjudged, "9f2c")
    assert "has not been judged" in text
    assert "oracle" not in text
