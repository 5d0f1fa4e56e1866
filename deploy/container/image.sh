#!/bin/bash
# image.sh [OPTION...]: build localhost/mirage:VERSION where no registry can be reached, with buildah on a base of Debian's packages.
#
# Root on Debian, with buildah and debootstrap. MIRROR names another mirror of Debian. pip and apt find packages by this host's
# settings, which do not stay in the image. Each OPTION goes to `buildah build`.
set -eu
umask 022
checkout=$(realpath "$(dirname "$0")/../..") base=localhost/mirage-base
version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' "$checkout/slurm_plugin/mirage_slurm/command/version.py")

if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$root" ${MIRROR:+"$MIRROR"} >&2
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    container=$(buildah from scratch)
    buildah copy --quiet "$container" "$root" / >&2
    buildah commit --quiet --rm "$container" "$base" >&2
fi
settings=()
for file in /etc/pip.conf /etc/apt/apt.conf.d/*proxy* /etc/ssl/certs/ca-certificates.crt; do
    [ ! -f "$file" ] || settings+=(--volume "$file:$file:ro")
done
buildah build --pull=never --build-arg BASE="$base" "${settings[@]}" "$@" \
    --file "$checkout/deploy/container/Containerfile" --tag "localhost/mirage:$version" "$checkout"
