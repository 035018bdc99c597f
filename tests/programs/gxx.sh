# The C++ compiler on exceptions and the standard library, then the program itself.
# needs: g++
# seconds: 180
set -eu
g++ -O2 -std=c++20 -c "$PROGRAMS/gxx.cpp" -o gxx.o
sha256sum gxx.o
g++ gxx.o -o gxx -pthread
./gxx
