#!/usr/bin/env bash
# Installs a wheel in a fresh virtual environment and runs the tests of the Python package: run.sh WHEEL FOLDER
set -euo pipefail
kTests=$(realpath "$(dirname "$0")")
kWheel=$(realpath "$1")
kEnvironment=$(realpath -m "$2")
readonly kTests kWheel kEnvironment
rm -rf "${kEnvironment}"
python3 -m venv "${kEnvironment}"
"${kEnvironment}/bin/pip" install --quiet "${kWheel}[progress]" --requirement "${kTests}/requirements.txt"
# Away from the source tree, so that the installed package is imported.
cd "${kEnvironment}"
exec bin/python -m pytest -q -p no:cacheprovider "${kTests}"
