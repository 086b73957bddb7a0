#!/bin/sh
# From a clone to the running stack of docker-compose.yml: secrets, image, `docker compose up`, wait until all is healthy.
#
# Uses the image GIRCSE_IMAGE, if set; otherwise builds one on a registry's Python image or, without a registry, on a
# Debian made by debootstrap (as root). BASE sets another base image. All variables of docker-compose.yml apply.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "$1" >&2
    shift
    for line in "$@"; do echo "  $line" >&2; done
    exit 1
}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# Prints the default of a variable in docker-compose.yml: `default_of GIRCSE_PUBLISH`.
default_of() { sed -n "s/.*\${$1:-\([^}]*\)}.*/\1/p" docker-compose.yml | head -n 1; }

command -v docker >/dev/null 2>&1 || fail "Docker is not installed." \
    "Debian, Ubuntu: apt install docker.io. Other systems: https://docs.docker.com/engine/install/"
error=$(docker info --format '{{.ServerVersion}}' 2>&1) || fail "The Docker daemon does not respond: $error" \
    "Start it with \`systemctl start docker\`, or \`dockerd\` as root. If it runs, add yourself to the group \`docker\`."
docker compose version >/dev/null 2>&1 || fail "This Docker has no \`docker compose\`." \
    "Install the Compose plug-in, version 2.20 or newer: package docker-compose-plugin (Docker's own), docker-compose-v2" \
    "(Ubuntu) or docker-compose (Debian 13)."

# Check that the published address is free, unless our web runs there already.
publish=${GIRCSE_PUBLISH:-$(default_of GIRCSE_PUBLISH)}
case "$publish" in *:*) host=${publish%:*} port=${publish##*:} ;; *) host=0.0.0.0 port=$publish ;; esac
if [ -z "$(docker compose ps --quiet web 2>/dev/null)" ]; then
    python=$(command -v python3 || command -v python || true)
    if [ -n "$python" ] && ! error=$("$python" -c '
import socket, sys
host = sys.argv[1].strip("[]")
with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(sys.argv[2])))
    except OSError as error:
        sys.exit(error.strerror)
' "$host" "$port" 2>&1); then
        fail "Web cannot listen on $publish: $error" "Choose another address: GIRCSE_PUBLISH=127.0.0.1:8080 make stack"
    fi
fi

# Pull other images first, because building ours takes minutes.
export GIRCSE_IMAGE="${GIRCSE_IMAGE:-}"
[ -n "$GIRCSE_IMAGE" ] || unset GIRCSE_IMAGE
ours=$(default_of GIRCSE_IMAGE)
ours_gpu=$(default_of GIRCSE_GPU_IMAGE)
for image in $(docker compose config --images | sort -u); do
    case "$image" in "$ours" | "$ours_gpu") continue ;; esac
    has_image "$image" || docker pull "$image" || fail "Cannot find or pull the image $image." \
        "Set another image: GIRCSE_IMAGE, QDRANT_IMAGE or POSTGRES_IMAGE."
done

if [ -z "${GIRCSE_IMAGE:-}" ]; then
    if [ -z "${BASE:-}" ]; then
        BASE=$(sed -n 's/^ARG BASE=//p' Dockerfile)
        if ! has_image "$BASE" && ! docker pull "$BASE"; then
            echo "Cannot pull $BASE: building a base image with debootstrap."
            BASE=localhost/gircse-base:bookworm
            has_image "$BASE" || command -v debootstrap >/dev/null 2>&1 || fail "debootstrap is not installed." \
                "Install it (Debian, Ubuntu: apt install debootstrap), or set a base image: make stack BASE=…"
            has_image "$BASE" || [ "$(id -u)" = 0 ] || fail "debootstrap needs root." \
                "Run \`make base PODMAN=docker\` as root once, or set a base image: make stack BASE=…"
        fi
    fi
    "${MAKE:-make}" --no-print-directory image PODMAN=docker IMAGE="$ours" BASE="$BASE"
fi

"${MAKE:-make}" --no-print-directory secrets

wait_s=${WAIT_S:-600}
if ! docker compose up --detach --wait --wait-timeout "$wait_s"; then
    docker compose ps --all >&2
    docker compose logs --tail 20 >&2
    fail "Some services were not healthy within $wait_s s. See the status table and log lines above." \
        "\`docker compose down\` stops them; the volumes keep their data."
fi
case "$host" in 0.0.0.0 | "[::]") host=$(hostname) ;; esac
echo
echo "All services are healthy. Open http://$host:$port and log in as admin. The password:"
echo "  cat ${GIRCSE_SECRETS:-secrets}/admin_secret"
echo "Stop with \`docker compose down\`; the volumes keep their data."
