# The parts' results: what is kept of each, and the JSON and the table at the end. Sourced by run.
# shellcheck shell=bash

count_ok=0 count_failed=0 count_skipped=0
json_parts="" table_rows=""

text_json() { # TEXT: as a JSON string, in one line
  local text; text=$(printf '%s' "$1" | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')
  printf '"%s"' "$text"
}

# record PART STATE SECONDS REASON FIGURES: STATE is ok, failed or skipped; FIGURES is a JSON object.
record() {
  local figures=${5:-{\}}
  declare -g "count_$2=$(($(eval "echo \$count_$2") + 1))"
  json_parts+="${json_parts:+,
  }{\"part\": $(text_json "$1"), \"state\": \"$2\", \"seconds\": $3, \"reason\": $(text_json "$4"), \"figures\": $figures}"
  local said=$4
  [ "$figures" = '{}' ] || said="${said:+$said; }$(sed 's/[{}"]//g; s/|/\//g' <<<"$figures")"
  table_rows+="| $1 | $2 | $3 | ${said//|//} |"$'\n'
  say "$1: $2 in $3 s${said:+ ($said)}"
}

machine_json() {
  printf '{"gpus": %s, "gpu": %s, "gpu_gib": %s, "driver": %s, "compute_capability": %s, "no_gpu": %s, "torch": %s, "cpu": %s, "cores": %s, "kernel": %s}' \
    "$gpus" "$(text_json "$gpu_name")" "$gpu_gib" "$(text_json "$driver")" "$(text_json "$capability")" "$(text_json "$no_gpu")" \
    "$(text_json "$torch_version")" "$(text_json "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1)")" "$(nproc)" "$(text_json "$(uname -r)")"
}

write_report() {
  cat >"$out/gpu-check.json" <<JSON
{"date": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
 "revision": "$pack_revision", "changed_files": $pack_changed,
 "machine": $(machine_json),
 "ok": $count_ok, "failed": $count_failed, "skipped": $count_skipped, "seconds": $((SECONDS - began)),
 "parts": [
  $json_parts]}
JSON
  cat >"$out/gpu-check.md" <<TABLE
# libdistill ${pack_revision:0:12} on $([ "$gpus" -gt 0 ] && echo "$gpus x $gpu_name" || echo "a machine without a GPU")

$(date -u +%Y-%m-%d), LibTorch $torch_version, $([ "$gpus" -gt 0 ] && echo "driver $driver" || echo "no GPU: $no_gpu"), $(nproc) cores:
$count_ok ok, $count_failed failed, $count_skipped skipped, in $((SECONDS - began)) s.

| Part | State | Seconds | What it says |
| --- | --- | --- | --- |
$table_rows
TABLE
}
