"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

CACHE = Path(".cache/wye")
Cache = Annotated[
    Path, typer.Option(help="Replays, features and replies, to be used again by later runs.")
]
Index = Annotated[
    Path | None, typer.Option(help="Folder of the index. Default: WYE_INDEX.", show_default=False)
]
GeneratorUrl = Annotated[
    str,
    typer.Option(
        envvar="WYE_GENERATOR__URL",
        help="Base of an OpenAI-compatible API that answers, or writes what is asked for; its key "
        "is in WYE_GENERATOR__KEY.",
    ),
]
GeneratorModel = Annotated[
    str, typer.Option(envvar="WYE_GENERATOR__MODEL", help="Name of the model there.")
]
JudgeUrl = Annotated[
    str,
    typer.Option(help="Base of an OpenAI-compatible API that judges; its key is in JUDGE_API_KEY."),
]
JudgeModel = Annotated[str, typer.Option(help="Name of the model there.")]
Quality = Annotated[str, typer.Option(help="The measure that thresholds are solved for.")]
Latency = Annotated[
    float | None, typer.Option(help="Highest mean latency, in milliseconds.", show_default=False)
]
LATENCY_WEIGHT = 0.007
STEPS_WEIGHT = 0.0005
Weight = Annotated[
    float,
    typer.Option(
        min=0,
        help="Quality that a millisecond less is worth, at the point `balanced`; 0 at `quality`, "
        "twice as much at `fast`.",
    ),
]
Share = Annotated[
    float | None,
    typer.Option(help="Highest share of questions that walk the graph.", show_default=False),
]
Arms = Annotated[
    Path | None,
    typer.Option(
        "--arms",
        help="File that declares remote arms, which are asked every question: beside the index, "
        "or without one. What they said is kept in the cache.",
        show_default=False,
    ),
]
Collection = Annotated[
    str, typer.Option("--arms-of", help="Collection of the arms file. Default: its first.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Agree to what asking remote arms costs, which is told first.")
]
Pace = Annotated[
    float,
    typer.Option("--per-second", min=0, help="Questions in a second at most; 0 sets no limit."),
]
MS_PER_PRICE = 100_000.0
Exchange = Annotated[
    float,
    typer.Option(
        "--ms-per-price",
        min=0,
        help="Milliseconds that a unit of price counts as, where routes are weighed.",
    ),
]
