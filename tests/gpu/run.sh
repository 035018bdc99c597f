#!/bin/sh
# Records and replays programs that use a GPU: a CUDA program and a PyTorch program. Needs a `retro`, nothing else of the project:
#
#     tests/gpu/run.sh target/release/retro [DIRECTORY]
#
# Each program runs natively and recorded, and must print the same; the recording must verify, without the GPU; and the mappings of
# the driver must show by their names. What the machine lacks is left out with a message that begins with SKIPPED.
# Exit status: 0 if everything that could be tried works, 1 if something fails, 77 if nothing could be tried.
#
# RETRO_GPU_PYTHON=python3.12 takes another interpreter, NVCC=/path/nvcc another compiler.
set -u

if [ $# -lt 1 ] || [ ! -x "$1" ]; then
    echo "usage: $0 path/to/retro [directory]" >&2
    exit 2
fi
retro=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
nvcc=${NVCC:-nvcc}
[ -x "$(command -v "$nvcc" 2>/dev/null)" ] || [ ! -x /usr/local/cuda/bin/nvcc ] || nvcc=/usr/local/cuda/bin/nvcc
python=${RETRO_GPU_PYTHON:-python3}

tried=0
failed=0

skip() {
    echo "SKIPPED $1: $2"
}

fail() {
    echo "FAILED $1: $2"
    failed=1
}

# Milliseconds since some time.
now() {
    date +%s%3N
}

if [ ! -e /dev/nvidiactl ]; then
    skip "everything" "there is no NVIDIA GPU here (no /dev/nvidiactl)"
    exit 77
fi

if [ $# -ge 2 ]; then
    place=$2
    mkdir -p "$place" || exit 2
else
    place=$(mktemp -d) || exit 2
    trap 'rm -rf "$place"' EXIT
fi
place=$(cd "$place" && pwd)
export RETRO_DIR="$place/recordings"

# check NAME COMMAND...: natively, recorded, verified.
check() {
    name=$1
    shift
    tried=1
    begun=$(now)
    if ! "$@" >"$place/$name.native" 2>"$place/$name.native-errors"; then
        tail -n 5 "$place/$name.native-errors"
        fail "$name" "it does not run natively"
        return 1
    fi
    native=$(($(now) - begun))
    begun=$(now)
    "$retro" record --no-index --name "$name" -- "$@" >"$place/$name.recorded" 2>"$place/$name.errors"
    status=$?
    recorded=$(($(now) - begun))
    tail -n 1 "$place/$name.errors"
    if [ $status -ne 0 ]; then
        tail -n 20 "$place/$name.errors"
        fail "$name" "recorded, it ends with status $status"
        return 1
    fi
    if ! cmp "$place/$name.native" "$place/$name.recorded"; then
        diff "$place/$name.native" "$place/$name.recorded" | head -n 20
        fail "$name" "recorded, it prints something else"
        return 1
    fi
    begun=$(now)
    # A replay must not need the GPU: this hides it from everything that asks for it politely.
    if ! CUDA_VISIBLE_DEVICES="" "$retro" verify "$name-1" >"$place/$name.verified" 2>&1; then
        tail -n 20 "$place/$name.verified"
        fail "$name" "the recording does not verify"
        return 1
    fi
    verified=$(($(now) - begun))
    tail -n 2 "$place/$name.verified" | head -n 1
    echo "$name: native $native ms, recorded $recorded ms, verified $verified ms"
    # The driver's mappings have the names of its devices.
    devices=$("$retro" dump --kind map "$name-1" | grep -c ' map .* /dev/nvidia')
    if [ "$devices" -eq 0 ]; then
        "$retro" dump --kind map "$name-1" | tail -n 20
        fail "$name" "no mapping of a device has a name"
        return 1
    fi
    echo "$name: $devices mappings of devices"
}

# The CUDA program can be asked about its host memory, too.
ask_cuda() {
    "$retro" index cuda-1 >"$place/cuda.index" 2>&1 || {
        tail -n 5 "$place/cuda.index"
        fail "cuda" "it cannot be indexed"
        return 1
    }
    "$retro" goto -r cuda-1 'start forward func_enter settled' >"$place/cuda.goto" 2>&1 || {
        cat "$place/cuda.goto"
        fail "cuda" "the call of a function is not found"
        return 1
    }
    "$retro" maps -r cuda-1 --at last >"$place/cuda.maps" 2>&1
    grep ' /dev/nvidia' "$place/cuda.maps" | awk '{ print "  " $NF }' | sort | uniq -c
    if ! grep -q ' /dev/nvidia' "$place/cuda.maps"; then
        cat "$place/cuda.maps"
        fail "cuda" "retro maps shows no device"
        return 1
    fi
    sum=$(cut -d ' ' -f 1 "$place/cuda.native")
    printed=$("$retro" print -r cuda-1 --at last sum 2>&1 | tr -d '\n')
    if [ "$printed" != "$sum" ]; then
        fail "cuda" "the sum is $printed when settled is called, not $sum"
        return 1
    fi
}

if ! command -v "$nvcc" >/dev/null 2>&1; then
    skip "cuda" "there is no nvcc"
elif ! "$nvcc" -g -O1 -o "$place/vector" "$here/vector.cu" >"$place/nvcc" 2>&1; then
    tail -n 5 "$place/nvcc"
    skip "cuda" "nvcc cannot compile here"
else
    check cuda "$place/vector" && ask_cuda
fi

if ! command -v "$python" >/dev/null 2>&1; then
    skip "torch" "there is no $python"
elif ! "$python" -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else 77)' 2>"$place/torch"; then
    tail -n 1 "$place/torch"
    skip "torch" "$python has no PyTorch that finds the GPU"
else
    check torch "$python" "$here/model.py"
fi

[ $failed -eq 0 ] || exit 1
[ $tried -eq 1 ] || exit 77
echo "OK"
