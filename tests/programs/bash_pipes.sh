# Pipes, subshells, command and process substitution, here-documents, arrays, arithmetic.
set -eu
seq 1 5000 | awk '{ print $1 * 7 % 1000 }' | sort -n | uniq -c | sort -rn | head -5
total=$(for i in {1..50}; do echo $((i * i)); done | paste -sd+ | bc)
echo "total $total"
diff <(seq 1 10) <(seq 1 2 10) || echo "differ: $?"
cat <<TEXT | tr a-z A-Z
here document with $total and $(echo substitution)
TEXT
declare -A counts=()
for word in the quick brown the lazy the dog dog; do
  counts[$word]=$((${counts[$word]:-0} + 1))
done
for word in "${!counts[@]}"; do echo "$word ${counts[$word]}"; done | sort
( cd /; pwd; exit 4 ) || echo "subshell $?"
false | true | (exit 3) || echo "${PIPESTATUS[*]}"
while read -r a b; do echo "$b-$a"; done < <(printf '%s\n' "1 2" "3 4")
coproc CAT { cat; }
cat=$CAT_PID
echo through a coprocess >&"${CAT[1]}"
read -r line <&"${CAT[0]}"
echo "$line"
eval "exec ${CAT[1]}>&-"
wait "$cat"
for i in $(seq 1 40); do /bin/echo -n "$i "; done; echo
[[ abc123 =~ ^([a-z]+)([0-9]+)$ ]] && echo "${BASH_REMATCH[@]:1}"
printf '%08.3f|%-6s|%x\n' 3.14159 ab 255
yes | head -n 100000 | wc -l
