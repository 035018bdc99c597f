# Programs that no dynamic linker prepares: static, static and position-independent, not PIE, bare.
# needs: gcc
set -eu
for program in static static-pie no-pie; do echo $program; ./$program one two; done
./bare || echo "status $?"
