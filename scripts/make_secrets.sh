#!/bin/sh
# Creates the secrets of docker-compose.yml in the given folder (default: secrets). Keeps existing ones.
#
# Only the owner can enter the folder (0700). The files inside are readable (0444), because containers mount them
# unchanged and run as other users.
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
