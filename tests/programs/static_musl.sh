# Another C library, static and dynamic.
# needs: musl-gcc
set -eu
for program in static dynamic; do echo $program; ./$program one two; done
