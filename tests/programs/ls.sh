# A large listing: many system calls, user and group look-ups, much output.
# seconds: 120
set -eu
ls -lR /usr/share
