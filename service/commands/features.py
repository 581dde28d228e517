"""`wye features`: what a router sees of a question."""

from typing import Annotated

import typer

from service.commands.options import JsonOption
from service.terminal import messages, output


def features(
    question: Annotated[
        str | None,
        typer.Argument(help="Whose features to show; without one, all are listed."),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the features of questions, or show a question's values and its constituency tree.

    Each value stands beside its percentile in a reference set of questions that come with Wye.
    """
    from service.render_features import list_features, listed_json

    if question is None:
        if as_json:
            typer.echo(listed_json())
        else:
            list_features(output())
        return

    from featurizer.constituency.parser import open_syntax_parser
    from featurizer.registry import feature_row, read_reference, schema_id
    from router.gateway import check
    from service.render_features import Described, described_json, show_described
    from service.settings import load_settings

    check([question], 1)
    settings = load_settings().analyser
    with messages().status("Loading the models"):
        parser = open_syntax_parser(settings.pipeline, settings.constituency)
    (syntax,) = parser.parse([question])
    described = Described(
        question, syntax, feature_row(syntax), schema_id(parser.fingerprint), read_reference()
    )
    if as_json:
        typer.echo(described_json(described))
    else:
        show_described(output(), described)
