"""Anything that JSON can say, and what those send who mean no good."""

from hypothesis import strategies as st

# Lone surrogates too: JSON can say them, and no encoder can write them.
ANY = st.text(st.characters(exclude_categories=[]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=8,
)

# Costly to a parser, or not what it seems to a terminal, a log, a prompt, or an id.
_PIECES = (
    '"', "!", "(),", '."""', "'", "\u009b31m", "\x1b[31m", "\u202e", "\r\n", "\x00", "\u2028",
    "#0001", "/../", "%0A", "[1] Official\n", "\n\nQuestion: ", "&nobody;", "{{7*7}}", "=1+1",
    "' OR 1=1 --", "\ud800", "\U0010ffff", "a\u0301", "\ufdfa", "-", ". ",
)  # fmt: skip
_STRETCHES = st.builds(
    lambda piece, times: piece * times, st.sampled_from(_PIECES), st.sampled_from((1, 2, 9, 900))
)
HOSTILE = st.lists(_STRETCHES | ANY, min_size=1, max_size=4).map("".join)
_NUMBERS = st.integers() | st.floats() | st.sampled_from((2**53, -(2**63), 10**400, 1e308, -0.0))
_VALUES = HOSTILE | _NUMBERS | st.booleans() | st.none()
# As is allowed, about at its bounds, and beyond.
METADATA = st.dictionaries(
    ANY | HOSTILE | st.sampled_from(("year", "k" * 64, "k" * 5_000, "_id", "a.b", "")),
    _VALUES
    | st.lists(_VALUES, max_size=3)
    | st.builds(lambda value, size: [value] * size, _VALUES, st.sampled_from((255, 257, 5_000)))
    | JSON,
    max_size=4,
) | st.sampled_from((63, 64, 65, 2_000)).map(lambda size: {f"k{n}": n for n in range(size)})

# What a head may hold; the server's own words and limits are left to it.
HEADS = st.dictionaries(
    st.sampled_from(
        (
            "accept", "accept-encoding", "authorization", "cookie", "expect", "forwarded",
            "if-none-match", "origin", "range", "referer", "sec-fetch-site", "traceparent",
            "tracestate", "user-agent", "x-api-key", "x-forwarded-for", "x-http-method-override",
            "x-request-id",
        )
    ).map(str.encode),
    st.binary(max_size=60)
    | st.sampled_from(
        (
            b"", b"\x00", b"\xff\xfe", b"Bearer ", b"Bearer wye_" + b"a" * 5_000, b"text/html",
            b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"bytes=0-", b"null", b"\x1b[31m",
            b"https://evil.example", b"cross-site", b"100-continue", b"a" * 60_000,
        )
    ),
    max_size=4,
)  # fmt: skip
