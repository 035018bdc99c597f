set -eu
"$RUSTC" --edition 2021 -O -o threads "$PROGRAMS/threads.rs"
