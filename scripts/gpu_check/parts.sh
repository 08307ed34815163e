# The parts, in order: those that say most come first, since --seconds ends the last ones. Sourced by run.
# shellcheck shell=bash

log="" took=0 fabric_path=""
# A host's own libfabric knows its NICs; the pack's is for hosts without one.
ldconfig -p 2>/dev/null | grep -q 'libfabric\.so\.1' || fabric_path=:$work/programs/fabric
own() { # COMMAND...: a program of the pack, or a command that starts one
  LD_LIBRARY_PATH=$torch_path:$work/programs/lib$fabric_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} DISTILL_GOLDEN_DIR=$work/data/golden \
    DISTILL_SOURCE_DIR=$work/data DISTILL_CACHE_DIR=$work/cache "$@"
}

# limited PART SECONDS COMMAND...: its output is in $log and in gpu-check.log, its time in $took. 125: no time was left;
# 124: it ran out of its own.
limited() {
  local part=$1 limit=$2 left=$((seconds - (SECONDS - began))) start code; shift 2
  took=0 log=$work/part.log
  : >"$log"
  [ $left -ge 3 ] || return 125
  [ $without_gpu = 0 ] || limit=$((limit * 20))
  [ "$limit" -le $left ] || limit=$left
  start=$(date +%s%3N)
  (cd "$work" && own timeout -k 5 "$limit" "$@") >"$log" 2>&1 </dev/null
  code=$?
  took=$(awk "BEGIN {print ($(date +%s%3N) - $start) / 1000}")
  { printf '\n===== %s: %s\n' "$part" "$*"; cat "$log"; } >>"$out/gpu-check.log"
  [ $code != 137 ] || code=124
  return $code
}

# failure CODE: why a part failed, out of its log.
failure() {
  [ "$1" != 124 ] || { echo "it took more than its time, $took s"; return; }
  local line; line=$(grep -aE '(^|[ :])(error|Error|ERROR|FAILED|CUDA|what\(\)).*' "$log" | tail -1 | cut -c1-300)
  echo "exit code $1: ${line:-$(tail -1 "$log" | cut -c1-300)} (gpu-check.log has all of it)"
}

# conclude PART CODE [FIGURES]: records what `limited` left.
conclude() {
  case $2 in
    0) record "$1" ok "$took" "" "${3:-}" ;;
    125) record "$1" skipped 0 "no time was left of --seconds $seconds" ;;
    *) record "$1" failed "$took" "$(failure "$2")" ;;
  esac
}

own_figures() { sed -n 's/^JSON //p' "$log" | tail -1; }
number_of() { sed -n "s/.*\"$1\": \([0-9.eE+-]*\).*/\1/p" <<<"$2"; } # NAME FIGURES

# Every program starts, and finds all of its libraries here or in LibTorch.
check_programs() {
  local program missing
  for program in "$work"/programs/bin/*; do
    missing=$(ldd "$program" | grep 'not found')
    [ -z "$missing" ] || { echo "error: $(basename "$program") does not find$missing"; return 1; }
    "$program" --help >/dev/null || { echo "error: $(basename "$program") --help ended with exit code $?"; return 1; }
    echo "$(basename "$program") starts"
  done
}

part_programs() {
  export -f check_programs
  export work
  limited programs 90 bash -c check_programs
  conclude programs $? "{\"programs\": $(grep -c ' starts$' "$log")}"
}

# Tests, as CTest starts them. Without a GPU only those of golden values, which show that these came along.
part_tests() { # nccl, or others
  local name program filter limit code
  while IFS=$'\t' read -r name program filter limit; do
    [ "$1" = "$([[ $name == comm_nccl* ]] && echo nccl || echo others)" ] || continue
    if [ "$gpus" = 0 ] && ! [[ $name =~ ^(golden_|brain2text) ]]; then record "test $name" skipped 0 "no GPU: $no_gpu"; continue; fi
    [ "$filter" != - ] || filter=""
    [ "$limit" -le 120 ] || limit=120
    limited "test $name" "$limit" "$work/programs/bin/$program" ${filter:+"$filter"}
    code=$?
    if [ $code = 0 ] && grep -q '^skipped: ' "$log"; then
      record "test $name" skipped "$took" "$(sed -n 's/^skipped: //p' "$log" | head -1)"
    else
      conclude "test $name" $code "{\"assertions\": $(sed -n 's/.*(\([0-9]*\) assertions\{0,1\} in.*/\1/p' "$log" | tail -1 | grep . || echo 0)}"
    fi
  done <"$PACK/tests"
}

# Head and loss of a large vocabulary; small sizes on a CPU, where they only show that it works.
part_head_and_loss() {
  local flags="--tokens 64 --vocabulary 4096 --student 64 --teacher 128 --repetitions 1" name reason
  [ "$gpus" = 0 ] || flags="--device cuda --bf16 --tokens 8192 --vocabulary 128256 --student 4096 --teacher 4096 --repetitions 5"
  # shellcheck disable=SC2086
  limited "head and loss" 75 "$work/programs/bin/bench_distill_loss" $flags $([ "$gpus" = 0 ] || echo --chunk_tokens 1024)
  conclude "head and loss" $? "$(own_figures)"
  for name in whole-logits trl liger; do
    if [ "$gpus" = 0 ] && [ $name = liger ]; then record "head and loss, liger" skipped 0 "no GPU: $no_gpu"; continue; fi
    if [ "$gpus" != 0 ] && [ "$gpu_gib" -lt 40 ] && [ $name = whole-logits ]; then
      record "head and loss, $name" skipped 0 "whole logits of 8,192 tokens want 40 GiB, and $gpu_name has $gpu_gib"; continue
    fi
    # LibTorch's folders and ours are for our programs: Python finds its own.
    # shellcheck disable=SC2086
    limited "head and loss, $name" 60 env -u LD_LIBRARY_PATH ${LD_LIBRARY_PATH:+LD_LIBRARY_PATH="$LD_LIBRARY_PATH"} \
      PYTHONPATH="$work/data/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 python3 "$work/data/distill_loss.py" $name $flags
    local code=$?
    reason=$(grep -oE 'No module named .*|python3: No such file.*' "$log" | tail -1)
    if [ $code != 0 ] && [ -n "$reason" ]; then
      record "head and loss, $name" skipped "$took" "python3 here: $reason"
    else
      conclude "head and loss, $name" $code "{\"ms\": $(sed -n "s/^$name: \([0-9.]*\) ms.*/\1/p" "$log" | grep . || echo null)}"
    fi
  done
}

# A step of training, with its share of the card's rate of matrix products.
part_step() {
  local recipe=llm flags="--steps 3" name="step, small models on the CPU" figures code
  if [ "$gpus" != 0 ]; then
    recipe=llm_7b flags="--device cuda --bf16 --steps 8" name="step, 1.5 billion parameters from 7 billion"
    if [ "$gpu_gib" -lt 64 ]; then record "$name" skipped 0 "it wants a GPU of 64 GiB, and $gpu_name has $gpu_gib"; return; fi
  fi
  # shellcheck disable=SC2086
  limited "$name" 100 "$work/programs/bin/bench_train_step" $recipe $flags
  code=$?
  figures=$(own_figures)
  if [ $code = 0 ]; then
    figures="${figures%\}}, \"share_of_matrix_rate\": $(awk "BEGIN {printf \"%.3f\", $(number_of tokens_per_second "$figures") / $(number_of limit_tokens_per_second "$figures")}")}"
  fi
  conclude "$name" $code "$figures"
}

# quickstart NAME DEVICE RANKS STEPS [NAME=VALUE...]: its distilled student's first steps.
quickstart() {
  local name=$1 device=$2 ranks=$3 steps=$4 data=$work/data; shift 4
  rm -rf "${work:?}/runs/$name"
  limited "quickstart, $name" 90 env "$@" "$work/programs/bin/distillrun" -np "$ranks" "$work/programs/bin/distill_llm" \
    --config_file "$data/examples/llm/demo.yaml" --dataset_name "$data/quickstart/train.jsonl" \
    --eval_dataset_name "$data/quickstart/held_out.jsonl" --teacher_model "$data/examples/llm/teacher" \
    --student_model "$data/examples/llm/student" --max_steps "$steps" --eval_steps "$steps" --save_steps "$steps" \
    --logging_steps 1 --device "$device" --output_dir "$work/runs/$name"
}

# The losses of two runs' metrics, side by side: {"losses": N, "worst_difference": D}. Fails above TOLERANCE, relative.
compare_losses() { # FILE FILE TOLERANCE STEPS
  awk -v tolerance="$3" -v steps="$4" '
    match($0, /"step":[0-9]+/) { step = substr($0, RSTART + 7, RLENGTH - 7) }
    match($0, /"(eval_)?loss":[-+.eE0-9]+/) {
      split(substr($0, RSTART, RLENGTH), field, ":")
      key = step field[1]
      if (FILENAME == ARGV[1]) { first[key] = field[2]; next }
      if (!(key in first)) { print "error: " key " is in the second run alone"; bad = 1; exit 1 }
      difference = first[key] == field[2] ? 0 : (first[key] - field[2]) / (first[key] == 0 ? 1 : first[key])
      if (difference < 0) difference = -difference
      if (difference > worst) { worst = difference; where = step }
      count++
    }
    END {
      if (bad) exit 1
      printf "{\"losses\": %d, \"worst_difference\": %.2e, \"at_step\": %d}\n", count, worst, where
      if (count != steps + 1) { print "error: there are " count + 0 " losses in common, and not " steps + 1; exit 1 }
      if (!(worst <= tolerance)) { print "error: losses differ by " worst " at step " where ", more than " tolerance; exit 1 }
    }' "$1" "$2"
}

# The same job on GPUs, a rank each over NCCL, and on the CPU, in float32: rounding alone tells them apart. (Two ways of
# one CPU to add differ by 1e-5 after 200 steps.) Without a GPU: those two ways.
part_quickstart() {
  local ranks=1 steps=200 name code other=gpu
  [ "$gpus" = 0 ] || ranks=$((gpus < 8 ? gpus : 8))
  name="quickstart, $([ "$gpus" = 0 ] && echo 'two ways of the CPU to add' || echo "$ranks GPUs as the CPU")"
  local start=$SECONDS
  quickstart cpu cpu $ranks $steps
  code=$?
  if [ $code = 0 ]; then
    if [ "$gpus" = 0 ]; then
      other=plain
      quickstart plain cpu $ranks $steps DISTILL_CPU=plain ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41
    else
      quickstart gpu cuda $ranks $steps
    fi
    code=$?
  fi
  if [ $code = 0 ]; then
    compare_losses "$work/runs/cpu/metrics.jsonl" "$work/runs/$other/metrics.jsonl" 1e-3 $steps >"$log" 2>&1
    code=$?
    cat "$log" >>"$out/gpu-check.log"
  fi
  took=$((SECONDS - start))
  conclude "$name" $code "$(head -1 "$log")"
}

run_parts() {
  : >"$out/gpu-check.log"
  part_programs
  part_tests nccl
  part_head_and_loss
  part_step
  part_quickstart
  part_tests others
}
