set -eu
mkdir classes
javac -d classes "$PROGRAMS/Main.java"
