"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

CACHE = Path(".cache/wye")
Cache = Annotated[
    Path, typer.Option(help="Folder of replays, features and replies that later runs use again.")
]
Index = Annotated[
    Path | None, typer.Option(help="Folder of the index. Default: WYE_INDEX.", show_default=False)
]
GeneratorUrl = Annotated[
    str,
    typer.Option(
        envvar="WYE_GENERATOR__URL",
        help="Base URL of an OpenAI-compatible API that generates text; key in WYE_GENERATOR__KEY.",
    ),
]
GeneratorModel = Annotated[
    str, typer.Option(envvar="WYE_GENERATOR__MODEL", help="Name of the model at that API.")
]
JudgeUrl = Annotated[
    str,
    typer.Option(help="Base URL of an OpenAI-compatible API that judges; key in JUDGE_API_KEY."),
]
JudgeModel = Annotated[str, typer.Option(help="Name of the model at that API.")]
Quality = Annotated[str, typer.Option(help="Measure that thresholds are solved for.")]
Latency = Annotated[
    float | None, typer.Option(help="Highest mean latency, in milliseconds.", show_default=False)
]
LATENCY_WEIGHT = 0.007
STEPS_WEIGHT = 0.00005
Weight = Annotated[
    float,
    typer.Option(
        min=0,
        help="Quality given up for a millisecond less, at the point `balanced`; 0 at `quality`, "
        "twice as much at `fast`.",
    ),
]
Share = Annotated[
    float | None,
    typer.Option(help="Highest share of questions for which the graph runs.", show_default=False),
]
Arms = Annotated[
    Path | None,
    typer.Option(
        "--arms",
        help="File that declares remote arms. They are asked every question, with or without an "
        "index, and their replies are kept in the cache.",
        show_default=False,
    ),
]
Collection = Annotated[
    str, typer.Option("--arms-of", help="Collection of the arms file. Default: its first.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Agree to the calls of remote arms, which are printed first.")
]
MS_PER_PRICE = 100_000.0
Exchange = Annotated[
    float,
    typer.Option(
        "--ms-per-price",
        min=0,
        help="Milliseconds that a unit of price counts as when routes are weighed.",
    ),
]
