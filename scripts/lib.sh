# Shared by the scripts here: what they install, where it goes, and how they speak. Sourced, not run.
# shellcheck shell=bash

# Pins. A change of one makes a new dependency folder, so that clones with different pins do not disturb one another.
readonly PINS_PYTHON=(torch==2.11.0 matplotlib==3.10.9)
readonly PINS_ORACLES=(transformers==5.23.0 tokenizers==0.23.3 jinja2==3.1.6 safetensors==0.8.0 tensorboard==2.21.0)
readonly PINS_PEERS=(trl==1.16.0 mpi4py==4.1.2)

# Debian packages; docs/architecture.md gives the reason for each.
readonly DEBIAN_PACKAGES=(
  g++ cmake ninja-build ccache mold clang-format git python3-venv ca-certificates
  libabsl-dev libyaml-cpp-dev libcli11-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev libssl-dev libprotobuf-dev protobuf-compiler catch2
  libopenmpi-dev openmpi-bin libfabric-dev libfabric-bin
)

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly REPO

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# The folder of everything that does not come from Debian, keyed by the pins and the Python that will load it.
deps_dir() {
  local key
  key=$(printf '%s\n' "${PINS_PYTHON[@]}" "${PINS_ORACLES[@]}" "${PINS_PEERS[@]}" "$(/usr/bin/python3 -V)" |
    sha256sum | cut -c1-12)
  printf '%s/%s\n' "${DISTILL_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/libdistill}" "$key"
}

# seconds_since START, where START is what `date +%s` said.
seconds_since() { echo $(($(date +%s) - $1)); }
