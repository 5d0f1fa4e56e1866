#!/usr/bin/env bash
# The first tier as a stranger meets it: a copy of the checkout, a new environment with the extra `test` alone, an ordinary
# user, a plain `pytest`. Fails where a test is skipped: what an ordinary machine cannot run belongs to another tier.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp --directory --tmpdir mirage-newcomer.XXXXXX)
trap 'rm -rf "$folder"' EXIT
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
TIMEFORMAT='%R s'

git ls-files -z --cached --others --exclude-standard --deduplicate | tar --create --null --files-from=- --ignore-failed-read \
    --warning=no-failed-read | tar --extract --directory "$folder"
chown --recursive 65534:65534 "$folder" 2>/dev/null || true
cd "$folder"
export HOME=$folder MIRAGE_TESTS_BARE=1 # as if Debian's packages were not there
echo "a new environment, pip install -e '.[test]':"
time "${as_user[@]}" bash -c "${PYTHON:-python3} -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check -e '.[test]'"
echo "pytest:"
time "${as_user[@]}" .venv/bin/python -m pytest -q "$@" | tee result
! tail -n 1 result | grep --quiet skipped
