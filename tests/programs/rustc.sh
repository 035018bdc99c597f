# A compiler of two hundred megabytes with its own threads, under the engine.
# seconds: 600
# slow
set -eu
"$RUSTC" --edition 2021 -O --crate-name threads --emit=obj -C codegen-units=1 -o threads.o "$PROGRAMS/threads.rs"
sha256sum threads.o
"$RUSTC" --edition 2021 -o threads "$PROGRAMS/threads.rs"
./threads 2> /dev/null
