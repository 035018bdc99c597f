# Many threads: channels, locks, condition variables, atomics, panics caught, scoped threads.
# seconds: 120
# stderr: varies
set -eu
./threads
