from importlib.metadata import version

from featurizer.constituency.parser import open_syntax_parser
from router.query_performance import schema_id
from router.settings import load_settings
from training.publishing import command_line, schema_of, versions


def test_the_command_is_what_can_be_typed_again() -> None:
    typed = ["/somewhere/bin/wye", "train", "--questions", "my questions", "--name", "it"]
    assert command_line(typed) == "wye train --questions 'my questions' --name it"


def test_versions_are_those_that_run() -> None:
    found = versions()
    assert found["numpy"] == version("numpy")
    assert {"python", "wye", "spacy"} <= {*found}


def test_the_schema_is_that_of_the_models_that_serve() -> None:
    settings = load_settings()
    own = settings.analyser
    parser = open_syntax_parser(own.pipeline, own.constituency)
    assert schema_of(settings) == schema_id(parser.fingerprint)
