# Compiled code, null checks by faults, garbage collection, exceptions, threads, collections.
# needs: java javac
# seconds: 240
set -eu
java -Xmx256m -cp classes Main
java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp classes Main
java -cp classes Nowhere 2> /dev/null || echo "status $?"
