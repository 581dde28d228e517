"""The words of the OpenAPI schema that belong to no single address."""

DESCRIPTION = """
Wye finds passages for questions. Some questions are about one thing, and comparing vectors finds
their passages at once; others lead from a thing to a second one that the question never names, and
it takes a walk over a graph to get there. Wye scores each question and sends it the way that suits
it, or fuses both.

**Every answer can be questioned.** A reply says which way was taken, by which score and which
thresholds, which arm had each passage at which rank, how long each stage took, and which version of
the index was searched. An answer that is not what was asked for says why, in `degraded`.

**Errors** are problem+json (RFC 9457): `detail` says what is wrong and what to do, `errors`
where in the request. 503 and 429 come at once and with `Retry-After`. Each reply has an
`x-request-id`; send one to choose it.

**Keys.** A server that other machines can reach needs an API key, as a bearer token or in
`x-api-key`. Scopes are `read`, `write` and `admin`, each including those before it.
"""

TAGS = [
    {"name": "retrieval", "description": "Passages for questions."},
    {"name": "answers", "description": "Answers with citations, as one reply or as they come."},
    {"name": "openai", "description": "What clients of OpenAI's API know how to use."},
    {"name": "operations", "description": "For load balancers, Prometheus and whoever is on call."},
]
