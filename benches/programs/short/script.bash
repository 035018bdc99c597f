# bash's own work: arrays, substitutions, regular expressions, and a subshell now and then.
declare -A count
sum=0
for ((i = 0; i < 6000; i++)); do
    word="key$((i * 7919 % 997))/path/to/file$i.txt"
    name=${word##*/}
    base=${name%.txt}
    count[${word%%/*}]=$((${count[${word%%/*}]:-0} + ${#base}))
    [[ $word =~ ^key([0-9]+)/(.*)file([0-9]+) ]] && ((sum += BASH_REMATCH[1] ^ BASH_REMATCH[3]))
    if ((i % 300 == 0)); then
        sum=$((sum + $(printf '%d' "$i")))
    fi
done
keys=("${!count[@]}")
echo "${#keys[@]} $sum ${keys[*]:0:0}"
