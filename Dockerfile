# Wye as a server: `docker compose up` (compose.yaml says what comes before it), or
#   docker build -t wye .
#   docker run --rm -v wye-data:/data -v "$PWD/my-corpus:/corpus:ro" wye index /corpus --index /data/index
#   docker run --rm -v wye-data:/data wye keys new --scopes write --file /data/keys.txt
#   docker run -p 127.0.0.1:8000:8000 -v wye-data:/data wye
# The container listens on all its addresses, so it needs an API key.

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS build
# Options of pip, such as another package index.
ARG PIP_OPTIONS=""
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY backends backends
COPY featurizer featurizer
COPY models models
COPY router router
COPY service service
COPY training training
COPY src src
COPY deploy/image.txt deploy/image.txt
# Another platform than linux/amd64 has other archives: make the list there, by .ci/pins.py.
RUN python -m venv /opt/wye \
    && /opt/wye/bin/pip install --no-cache-dir ${PIP_OPTIONS} --no-deps --require-hashes -r deploy/image.txt \
    && /opt/wye/bin/pip install --no-cache-dir --no-deps --no-build-isolation -e .

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
# FAISS needs OpenMP, which the slim image lacks. A new volume that is mounted at /data gets
# the owner of that folder.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 wye \
    && install --directory --owner=wye --group=wye /data
COPY --from=build /opt/wye /opt/wye
COPY --from=build /src /src
ENV PATH=/opt/wye/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    WYE_SERVE__HOST=0.0.0.0 \
    WYE_SERVE__INDEXES=default=/data/index \
    WYE_SERVE__KEYS_FILE=/data/keys.txt
USER wye
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/ready', timeout=2)"]
ENTRYPOINT ["wye"]
CMD ["serve"]
