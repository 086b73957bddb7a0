#!/bin/sh
# Makes the secrets that docker-compose.yml gives its services, in the folder named (default: secrets). Those that are
# there stay as they are.
#
# The folder lets nobody in but its owner (0700). The files inside are readable (0444), since the services run as users
# of their own and a container is handed the file as it is.
set -eu

folder="${1:-secrets}"
umask 077
mkdir -p "$folder"
chmod 0700 "$folder"
for name in admin_secret postgres_password qdrant_api_key embedder_api_key; do
    file="$folder/$name"
    if [ -s "$file" ]; then
        continue
    fi
    # 32 bytes as 64 hexadecimal digits: safe in any URL, header or file.
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$file.new"
    chmod 0444 "$file.new"
    mv "$file.new" "$file"
    echo "$file"
done
