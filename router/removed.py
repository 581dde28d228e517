"""What Wye no longer has: each name with one sentence on what to do instead.

A row is added where something is removed, and everybody who still uses its name reads the
sentence: on the command line, when settings are loaded, and by the server.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

COMMANDS: Mapping[str, str] = {
    "features": "Run `wye route QUESTION --explain --json`; docs/reference/features.md lists them.",
    "migrate": "Run `wye index OLD-INDEX --index NEW` with the new models in the settings.",
    "refine": "Give passages `statements` in the file that you index; see docs/guides/presets.md.",
    "route --arms": "Run `wye serve --arms FILE`, and ask /v1/route.",
    "search --arms": "Run `wye serve --arms FILE`, and `wye search --url` of it.",
    "serve --workers": "Start more `wye serve`, each with its own port, behind a proxy.",
    "train --relevance --arms": "Relevance is fitted for an index only; leave --arms out.",
    "train --as-published": "Give --preset ea-graphrag, which also sets the arms.",
    "train --from-log": "Give judged --questions, such as a log's questions with your judgements.",
    "train --per-second": "Set max_concurrency of the arm in the arms file.",
    "tune --from-log": "Judge a log's questions; docs/guides/route-and-tune.md says how.",
    "tune --arms": "Run `wye train --arms` again; replies are cached, so no arm is called again.",
}
"""Command, or command and option as in "train --report"."""

SETTINGS: Mapping[str, str] = {
    **dict.fromkeys(
        ("WYE_SERVE__REQUESTS_PER_SECOND", "WYE_SERVE__BURST"),
        "API keys take turns; limit their rate in the proxy before the server.",
    ),
    "WYE_ANALYSER__CONSTITUENCY__VECTORS": (
        "A constituency model is one safetensors file: convert Stanza's .pt files with "
        "wye.training.constituency.model_files.export."
    ),
    "WYE_SERVE__CORS_ORIGINS": "Have the proxy before the server send CORS headers.",
    "WYE_SERVE__TRACES": "FASTAPI_OTEL_AUTO_CONFIGURE=true sends spans, with FastAPI's extra.",
    "WYE_SERVE__WORKERS": "Start more `wye serve`, each with its own port, behind a proxy.",
    "WYE_SERVE__SHARDS": "Every server searches a whole index: give each WYE_INDEX.",
    "WYE_SERVE__SHARD_MS": "Every server searches a whole index, so there are no such calls.",
}
"""Variable, or what several begin with, as in WYE_GENERATOR."""

ADDRESSES: Mapping[str, str] = {
    "/v1/open-webui/search": "Connect Open WebUI to /v1 as an OpenAI API, or to /mcp as a tool.",
    "/v1/responses": "Send to /v1/chat/completions, or to /v1/answer for citations as data.",
    "/v1/vector_stores/*/file_batches": (
        "Attach each file by itself, or send many documents in one upload to /v1/documents."
    ),
    "/v1/shard": "Every server searches a whole index; ask /v1/retrieve.",
}
"""HTTP address, where `*` is any name, with all addresses below it."""

FIELDS: dict[str, str] = {
    **dict.fromkeys(
        ("cache_entries", "cache_mb", "cache_seconds"),
        "An arm's replies are no longer cached; put a caching proxy before its address.",
    ),
    "embeddings": '{vector} is the collection\'s; a kind = "python" arm may ask any endpoint.',
    "hedge_ms": "Slow calls are no longer made twice; set timeout_ms and retries.",
    **dict.fromkeys(
        ("price_per_token", "tokens"),
        "Write as price what a call costs at most.",
    ),
    "relevance": "The relevance of remote passages is not fitted; cut lists by k or depth.",
    "shadow": "Ask the arm offline instead: `wye train --arms` learns when it is worth its price.",
}
"""Field of a request, parameter of an address, or key of an arms file."""

KINDS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "chroma",
            "elasticsearch",
            "lightrag",
            "openai-vector-store",
            "opensearch",
            "qdrant",
            "wye",
        ),
        'Use kind = "http" with the recipe for it in docs/guides/remote-arms.md.',
    ),
    "mcp": 'Use kind = "python" with docs/examples/mcp_arm.py.',
    "pgvector": 'Use kind = "python" with docs/examples/pgvector_arm.py.',
}
"""Kind of a remote arm."""


def command(words: Sequence[str]) -> str:
    """What to do instead of a command line, as a sentence; "" if nothing in it was removed."""
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    name = next((word for word in words if not word.startswith("-")), "")
    for removed, instead in COMMANDS.items():
        first, *rest = removed.split()
        if first == name and options.issuperset(rest):
            return f"`wye {removed}` was removed. {instead}"
    return ""


def setting(name: str) -> str:
    """What to do instead of setting a variable, as a sentence; "" if it was not removed."""
    return _below(SETTINGS, name, "__")


def address(path: str) -> str:
    """What to do instead of calling an address, as a sentence; "" if it was not removed."""
    return _below(ADDRESSES, path, "/")


def _below(table: Mapping[str, str], name: str, separator: str) -> str:
    under = (key for key in table if fnmatchcase(name + separator, f"{key}{separator}*"))
    return next((f"{key} was removed. {table[key]}" for key in under), "")
