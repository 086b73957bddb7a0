# gircse-search with its model: runs offline, as an unprivileged user, on a read-only root file system.
# `make image` builds it on a locally made base; docs/how-to/self-host.md describes both ways.
ARG BASE=python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1

FROM ${BASE} AS build
# For another torch: PyPI's index with torch-cuda.txt, or a file: URL of mounted wheels.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG TORCH_LOCK=torch-cpu.txt
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PATH=/opt/gircse/bin:$PATH
# On arm64, pytrec-eval-terrier has no wheel and must be compiled.
# hadolint ignore=DL3008
RUN if [ "$(uname -m)" != x86_64 ]; then \
        apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev python3-dev \
        && rm -rf /var/lib/apt/lists/*; \
    fi \
    && python3 -m venv /opt/gircse
COPY docker/*.txt /src/docker/
# All packages are locked by hash. Torch comes from its own index.
RUN pip install --require-hashes --no-deps --requirement /src/docker/requirements.txt \
    && pip install --require-hashes --no-deps --index-url "${TORCH_INDEX}" --requirement "/src/docker/${TORCH_LOCK}"
COPY pyproject.toml gircse_search.py LICENSE /src/
COPY docs/package.md /src/docs/package.md
COPY app /src/app
COPY embedder /src/embedder
COPY ingest /src/ingest
COPY ui /src/ui
COPY sample /src/sample
# Install the two distributions of this folder only, then check that the model works with the installed packages.
RUN pip install --no-deps --no-build-isolation /src/embedder /src \
    && gircse embed "The model is in the image." > /dev/null \
    && pip uninstall --yes setuptools pip \
    && rm -rf /opt/gircse/lib/python3*/site-packages/torch/include \
    && find /opt/gircse/lib/python3*/site-packages/numpy /opt/gircse/lib/python3*/site-packages/scipy \
        /opt/gircse/lib/python3*/site-packages/sympy /opt/gircse/lib/python3*/site-packages/pandas \
        -type d -name tests -prune -exec rm -rf {} +
# Bill of materials for scanners: /opt/gircse/share/sbom.cdx.json. The generator stays in this build stage.
RUN python3 -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --require-hashes --no-deps --requirement /src/docker/sbom.txt \
    && mkdir -p /opt/gircse/share \
    && /opt/sbom/bin/cyclonedx-py environment --of JSON --output-file /opt/gircse/share/sbom.cdx.json /opt/gircse/bin/python

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gircse-search" \
      org.opencontainers.image.description="Self-hosted instruction-following search on GIRCSE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# For synced Git repositories.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends git openssh-client && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 gircse \
    && useradd --uid 10001 --gid gircse --home-dir /data --no-create-home --shell /usr/sbin/nologin gircse \
    && install --directory --owner=gircse --group=gircse --mode=0700 /data
COPY --from=build /opt/gircse /opt/gircse
COPY --chmod=0755 docker/is_well.py /usr/local/bin/gircse-is-well
# The application writes only to the volume /data and to /tmp.
ENV PATH=/opt/gircse/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/data \
    GIRCSE_HOME=/data \
    HF_HOME=/data/huggingface \
    XDG_CACHE_HOME=/tmp/cache \
    GRADIO_TEMP_DIR=/tmp/gradio
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 7860
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s --retries=3 CMD ["gircse-is-well"]
CMD ["gircse", "up"]
