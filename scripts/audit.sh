#!/bin/sh
# Looks for unsafe code with bandit, and for known weaknesses of what is installed with pip-audit.
# Both live in a virtual environment of their own, so that what they need is not what Millpond is tested with.
set -eu
cd "$(dirname "$0")/.."

tools=.venv-audit
if ! "$tools/bin/python" -c 'import bandit, pip_audit' >/dev/null 2>&1; then
    echo "audit: installing bandit and pip-audit into $tools"
    .venv/bin/python -m venv --clear "$tools"
    # The versions are those of the extra `audit` in pyproject.toml.
    wanted=$(.venv/bin/python -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["audit"])')
    # shellcheck disable=SC2086 # several words
    "$tools/bin/python" -m pip --quiet --disable-pip-version-check install $wanted
fi

echo "audit: bandit over millpond, scripts, benchmarks and examples"
"$tools/bin/bandit" --quiet --configfile pyproject.toml --recursive millpond scripts benchmarks examples

echo "audit: pip-audit over what is installed in .venv"
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if "$tools/bin/pip-audit" --path "$site" --skip-editable --progress-spinner off --timeout 5 >"$tools/report" 2>&1; then
    cat "$tools/report"
    if grep -q 'could not be audited' "$tools/report"; then
        echo "audit: not all packages could be compared with the list of advisories, which needs a network"
    fi
elif grep -qE 'ConnectionError|Max retries|Temporary failure|Name or service|ServiceError|timed out|resolve' "$tools/report"; then
    # Advisories are asked for by network. Without one, at least every package is named, with its version.
    echo "audit: the list of advisories can't be reached from here; these packages were not compared with it:"
    "$tools/bin/python" -m pip --python .venv/bin/python --disable-pip-version-check list --format=freeze
else
    cat "$tools/report"
    exit 1
fi
