# What this machine has: processor and C library, LibTorch, GPUs and driver. Sourced by run.
# shellcheck shell=bash

is_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$2" ]; } # A B: version A is B or newer

check_processor() {
  [ "$(uname -m)" = "$pack_processor" ] || fail "these programs are for $pack_processor, and this is $(uname -m): pack on such a machine"
  local glibc; glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
  is_at_least "${glibc:-0}" "$pack_glibc" ||
    fail "these programs want glibc $pack_glibc or newer, and here is ${glibc:-another C library}: pack on an older system"
}

# The folder of torch's package without importing it, which takes seconds.
folder_of_python() {
  python3 -c 'import importlib.util, os
found = importlib.util.find_spec("torch")
print(os.path.dirname(found.origin) if found and found.origin else "")' 2>/dev/null
}

find_torch() {
  local folder found=""
  if [ -n "${TORCH_LIB:-}" ]; then
    [ -e "$TORCH_LIB/libtorch_cpu.so" ] || fail "TORCH_LIB=$TORCH_LIB has no libtorch_cpu.so"
    found=$TORCH_LIB
  else
    for folder in "$(folder_of_python)" /opt/libtorch /usr/local/libtorch "$HOME/libtorch"; do
      if [ -n "$folder" ] && [ -e "$folder/lib/libtorch_cpu.so" ]; then found=$folder/lib; break; fi
    done
  fi
  [ -n "$found" ] || fail "no LibTorch: install PyPI's torch $pack_torch for python3, or set TORCH_LIB to the folder with libtorch_cpu.so"
  torch_lib=$(cd "$found" && pwd)
  torch_version=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$torch_lib/../version.py" 2>/dev/null)
  [ -n "$torch_version" ] || torch_version=$(cat "$torch_lib/../build-version" 2>/dev/null || echo unknown)
  case ${torch_version%%+*} in
    "$pack_torch") ;;
    unknown) say "which LibTorch $torch_lib is, nothing there says; these programs are made with $pack_torch" ;;
    *) fail "LibTorch $torch_version is in $torch_lib, and these programs are made with $pack_torch: install that one, or pack again" ;;
  esac
  # CUDA's libraries and NCCL come with PyPI's torch, in folders beside it.
  torch_path=$torch_lib
  for folder in "$torch_lib"/../../nvidia/*/lib; do [ ! -d "$folder" ] || torch_path+=:$folder; done
}

# gpus, gpu_name, gpu_gib (of the smallest), driver, capability (of the first), of those that CUDA_VISIBLE_DEVICES lets programs see; or
# no_gpu, the reason.
find_gpus() {
  gpus=0 gpu_name="" gpu_gib=0 driver="" capability="" no_gpu=""
  if [ $without_gpu = 1 ]; then no_gpu="--without-gpu was asked for"; return; fi
  local listed only=()
  if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    case $CUDA_VISIBLE_DEVICES in
      "" | -1*) no_gpu="CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES hides all GPUs"; return ;;
      MIG-*) ;; # a part of a GPU, by which nvidia-smi cannot list: programs see one of them alone
      *) only=(-i "$CUDA_VISIBLE_DEVICES") ;;
    esac
  fi
  if ! command -v nvidia-smi >/dev/null; then no_gpu="nvidia-smi is not here, which comes with NVIDIA's driver"; return; fi
  if ! listed=$(nvidia-smi "${only[@]}" --query-gpu=name,memory.total,driver_version,compute_cap --format=csv,noheader,nounits 2>&1); then
    no_gpu="nvidia-smi says: $(head -1 <<<"$listed")"; return
  fi
  [ -n "$listed" ] || { no_gpu="nvidia-smi lists none"; return; }
  IFS=, read -r gpu_name _ driver capability <<<"$(sed 's/, */,/g' <<<"$listed" | head -1)"
  if ! is_at_least "$driver" "$pack_driver"; then
    no_gpu="the driver is $driver, and CUDA of LibTorch $pack_torch wants $pack_driver or newer"; return
  fi
  if [ -z "$pack_architectures" ]; then no_gpu="the programs of this pack were built without CUDA"; return; fi
  if ! has_kernels "$capability"; then
    no_gpu="kernels are made for compute capabilities $pack_architectures (tenths), and $gpu_name has $capability"; return
  fi
  gpus=$(grep -c . <<<"$listed")
  case ${CUDA_VISIBLE_DEVICES:-} in MIG-*) gpus=1 ;; esac
  gpu_gib=$(cut -d, -f2 <<<"$listed" | sort -n | head -1 | awk '{printf "%.0f", $1 / 1024}')
}

# Machine code runs on later minor versions of its major one; the newest architecture is there as PTX, too, for all later.
has_kernels() { # CAPABILITY like 9.0
  local wanted=${1/./} architecture newest=0
  for architecture in ${pack_architectures//,/ }; do
    architecture=${architecture%%[!0-9]*}
    [ "$architecture" -le "$newest" ] || newest=$architecture
    [ $((architecture / 10)) != $((wanted / 10)) ] || [ "$architecture" -gt "$wanted" ] || return 0
  done
  [ "$newest" -le "$wanted" ]
}
