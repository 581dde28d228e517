from inspect import getdoc

from router.settings import Settings, attribute_docs, markdown, variables


def test_every_variable_has_a_name_and_a_meaning() -> None:
    found = variables(Settings)
    assert len({variable.name for variable in found}) == len(found)
    assert all(variable.doc for variable in found)
    names = [variable.name for variable in found]
    assert {"WYE_INDEX", "WYE_GRAPH__DAMPING", "WYE_ANALYSER__ENCODER__MODEL"} <= {*names}


def test_defaults_are_written_as_the_environment_has_them() -> None:
    defaults = {variable.name: variable.default for variable in variables(Settings)}
    assert defaults["WYE_FUSION__LISTS"] == "dense,graph"
    assert defaults["WYE_GRAPH__SUMMED"] == "true"
    assert defaults["WYE_INDEX"] == ""


def test_docs_come_from_the_attributes_section() -> None:
    class Owner:
        """First line.

        Attributes:
            one: Says
                this.
            two_words: And that.
        """

    assert attribute_docs(getdoc(Owner)) == {"one": "Says this.", "two_words": "And that."}


def test_the_page_has_a_table_for_each_part() -> None:
    page = markdown(Settings)
    assert "| `WYE_FUSION__RRF_K` | `60.0` |" in page
    assert page.count("| variable | default | meaning |") > 5
