from training.card import card
from training.markdown import spread
from training.report import Report


def test_the_card_has_figures_with_their_command(report: Report) -> None:
    text = card("mine", report, {"one": ("One", "CC0", "written")})
    assert text.startswith("# Router: mine\n")
    assert report.evaluation is not None
    assert f"| auto | {spread(report.evaluation.means['auto']['nDCG@10'])}" in text
    assert "\n    wye train --questions one --questions other\n" in text
    assert "schema `9f2c`" in text
    assert "| one | One | CC0 | written | 90 | 90 | 40 |" in text
    assert "| other | own data | not stated | not stated | 60 | 60 | 20 |" in text
    assert "English" in text
    rows = text.partition("## On other datasets")[2].partition("## Data")[0].count("\n| other | ")
    assert rows == 2 * len(report.policy.points)


def test_a_router_that_was_not_judged_says_so(unjudged: Report) -> None:
    text = card("mine", unjudged)
    assert "was not evaluated" in text
    assert "oracle" not in text
