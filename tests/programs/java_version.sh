# The virtual machine starts, prints and ends.
# needs: java
# seconds: 120
set -eu
java -version 2>&1
java -Xint -version 2>&1 | head -1
