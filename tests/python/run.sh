#!/usr/bin/env bash
# Installs a wheel in a fresh virtual environment and runs the tests of the Python package: run.sh WHEEL FOLDER
# With EXTRAS=1 the libraries that it is compared with are installed, too: PyTorch, lm-eval, pandas. Without them, their
# tests are skipped, and the summary says so. PYTHON names another interpreter.
set -euo pipefail
kTests=$(realpath "$(dirname "$0")")
kWheel=$(realpath "$1")
kEnvironment=$(realpath -m "$2")
readonly kTests kWheel kEnvironment
requirements=(--requirement "${kTests}/requirements.txt")
if [[ ${EXTRAS:-0} == 1 ]]; then requirements+=(--requirement "${kTests}/requirements-extras.txt"); fi
rm -rf "${kEnvironment}"
"${PYTHON:-python3}" -m venv "${kEnvironment}"
"${kEnvironment}/bin/pip" install --quiet "${kWheel}[progress]" "${requirements[@]}"
# Away from the source tree, so that the installed package is imported.
cd "${kEnvironment}"
exec bin/python -m pytest -q -rs --durations=10 -p no:cacheprovider "${kTests}"
