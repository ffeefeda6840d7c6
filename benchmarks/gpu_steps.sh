#!/bin/sh
# All that is measured on one GPU, each part with a time-out of its own:
#     sh benchmarks/gpu_steps.sh OUT_DIR [SECONDS] [more options of gpu_steps.py]
# PYTHON names the interpreter. Without a GPU: --device cpu --small behind the seconds.
cd "$(dirname "$0")/.." || exit 2
out=${1:?OUT_DIR}
seconds=${2:-480}
shift
[ $# -gt 0 ] && shift
python=${PYTHON:-python}
begin=$(date +%s)
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
PYTHONPATH=$(pwd)${PYTHONPATH:+:$PYTHONPATH}
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export PYTHONPATH PYTORCH_CUDA_ALLOC_CONF

part() { # NAME TIME-OUT COMMAND...
    name=$1
    limit=$2
    shift 2
    timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>"$out/$name.err"
    echo "$name: status $?, $(($(date +%s) - begin)) s" | tee -a "$out/parts.txt"
}

if command -v nvidia-smi >/dev/null; then
    nvidia-smi >"$out/nvidia-smi.txt" 2>&1
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu \
        --format=csv -l 2 >"$out/clocks.csv" 2>/dev/null &
    watching=$!
fi
part host 90 "$python" -m planner calibrate host --processes 1 -o "$out/host.yaml"
part traces 90 "$python" -m benchmarks.gpu_steps "$out" --traces "$@"
left=$((seconds - $(date +%s) + begin - 60))
part steps $((left + 25)) "$python" -m benchmarks.gpu_steps "$out" --budget "$left" "$@"
part export 40 "$python" examples/run_on_torch/gpt.py export "$out/gpt.pt2"
part search 40 "$python" -m planner search "$out/gpt.pt2" --devices 1 \
    --cluster "$out/host.yaml" --target torch --profile generic -o "$out/plan"
part run 60 "$python" -m planner run "$out/plan/plan.json" -o "$out/measured"
rm -f "$out/gpt.pt2"
[ -n "${watching:-}" ] && kill "$watching"
exit 0
