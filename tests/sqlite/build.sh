#!/bin/sh
# Compiles SQLite with debug information: sqlite3.o and sqlite3.h in a directory.
#
#   build.sh DIRECTORY [OPTION OF THE COMPILER]...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
directory=$1
shift
# Where cargo has put the crate; it fetches it if it is not there.
manifests=$(cargo metadata --locked --format-version 1 --manifest-path "$here/Cargo.toml" | tr ',' '\n')
crate=$(printf '%s\n' "$manifests" | sed -n 's|^"manifest_path":"\(.*/libsqlite3-sys-[^/]*\)/Cargo.toml".*|\1|p')
cp "$crate/sqlite3/sqlite3.h" "$crate/sqlite3/sqlite3.c" "$directory/"
cd "$directory"
cc -g -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION "$@" -c sqlite3.c -o sqlite3.o
