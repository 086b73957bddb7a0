FROM python:3.11-slim

WORKDIR /src
# The CPU build of torch: the default one carries gigabytes for NVIDIA GPUs.
RUN pip install --no-cache-dir "torch>=2.13,<2.14" --index-url https://download.pytorch.org/whl/cpu
COPY . .
RUN pip install --no-cache-dir ".[app]" \
    && useradd --create-home gircse \
    && install --directory --owner=gircse /data

USER gircse
ENV GIRCSE_HOME=/data
WORKDIR /data
CMD ["gircse", "up"]
