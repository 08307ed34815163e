# Shared by the scripts here: what they install, where it goes, and how they speak. Sourced, not run.
# shellcheck shell=bash

# Pins. A change of one makes a new dependency folder, so that clones with different pins do not disturb one another.
readonly PINS_PYTHON=(torch==2.11.0 matplotlib==3.10.9)
readonly PINS_ORACLES=(transformers==5.23.0 tokenizers==0.23.3 jinja2==3.1.6 safetensors==0.8.0 tensorboard==2.21.0)
readonly PINS_PEERS=(trl==1.16.0 mpi4py==4.1.2)
readonly PIN_ARROW=pyarrow==26.0.1  # Arrow C++ with Parquet; joins python, is not part of the key
readonly PIN_H5PY=h5py==3.16.0  # joins the oracles, is not part of the key
readonly PIN_RAPIDFUZZ=rapidfuzz==3.14.6  # joins the oracles, too
readonly PIN_SKLEARN=scikit-learn==1.9.1  # this one, too
readonly PIN_PEFT=peft==0.21.2  # and this one, with accelerate
readonly PIN_SENTENCEPIECE=sentencepiece==0.2.3
readonly PIN_TRANSFORMERS4=transformers==4.52.4  # what transformers 5 has no more, in an environment of its own; not part of the key
readonly PIN_TRL=trl==1.16.0  # joins the oracles for its chat templates alone; not part of the key, so that folders that stand need no second torch
readonly PIN_LIGER=liger-kernel==0.8.5  # joins the peers; not part of the key either
readonly PINS_TOKENIZERS=(tiktoken==0.14.0 rs-bpe==0.1.0 quicktok-v1==0.4.0 "$PIN_SENTENCEPIECE")  # these, too

# Debian packages; docs/architecture.md gives the reason for each.
readonly DEBIAN_PACKAGES=(
  g++ cmake ninja-build ccache lld clang-format git python3-venv ca-certificates
  libabsl-dev libyaml-cpp-dev libcli11-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev libssl-dev libcurl4-openssl-dev libhdf5-dev libcairo2-dev zlib1g-dev libzstd-dev libpugixml-dev libcpp-httplib-dev libprotobuf-dev protobuf-compiler catch2
  libopenmpi-dev openmpi-bin libfabric-dev libfabric-bin
)
readonly DEBIAN_ORACLES=(doxygen)   # writes the reference of the headers
readonly DEBIAN_S3=(radosgw ceph-mon ceph-osd curl)  # a real S3 server for tests, on loopback
readonly DEBIAN_FUZZERS=(clang libclang-rt-14-dev)  # libFuzzer
readonly DEBIAN_PEERS=(libgloo-dev)  # small all-reduces are timed from C++

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly REPO

# A relative folder means the one where the user stands, whatever the scripts change to later.
[ -z "${DISTILL_DEPS:-}" ] || { DISTILL_DEPS=$(realpath -m -- "$DISTILL_DEPS"); export DISTILL_DEPS; }

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# The folder of everything that does not come from Debian, keyed by the pins and the Python that will load it.
deps_dir() {
  local key
  key=$(printf '%s\n' "${PINS_PYTHON[@]}" "${PINS_ORACLES[@]}" "${PINS_PEERS[@]}" "$(/usr/bin/python3 -V)" |
    sha256sum | cut -c1-12)
  printf '%s/%s\n' "${DISTILL_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/libdistill}" "$key"
}

# logged WHAT LOG COMMAND...: runs the command with all that it prints in LOG, and shows that it is alive: one line that
# renews itself on a terminal, else a line every 30 s, with ninja's [done/all] where there is one.
logged() {
  local what=$1 log=$2 began; shift 2
  began=$(date +%s)
  mkdir -p "$(dirname "$log")"
  : >"$log"
  show_progress "$what" "$log" "$began" >&2 9>&- &  # 9 is the lock of scripts/setup
  local shower=$!
  local code=0
  "$@" >"$log" 2>&1 || code=$?
  kill "$shower" 2>/dev/null || true
  wait "$shower" 2>/dev/null || true
  [ ! -t 2 ] || printf '\r\033[K' >&2
  [ $code = 0 ] && return
  tail -40 "$log" >&2
  failed_checks "$log" >&2
  fail "$what: failed after $(seconds_since "$began") s (all of it: $log)"
}

# The first checks that failed in a log of tests, and what sanitizers reported: where only the end of a long log is kept,
# these lines stay.
failed_checks() {
  grep -aE -A 9 '(: FAILED:|Sanitizer:|runtime error:)' "$1" | head -30 || true
}

show_progress() { # WHAT LOG BEGAN; ends with the script that started it
  local every=30 step line
  [ ! -t 2 ] || every=1
  while sleep "$every" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    step=$(grep -ao '^\[[0-9]*/[0-9]*\]' "$2" | tail -1) || true
    line="    $1: ${step:+$step, }$(seconds_since "$3") s"
    if [ -t 2 ]; then printf '\r\033[K%s' "$line" >&2; else printf '%s\n' "$line" >&2; fi
  done
}

# seconds_since START, where START is what `date +%s` said.
seconds_since() { echo $(($(date +%s) - $1)); }
