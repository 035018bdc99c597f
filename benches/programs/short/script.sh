# A shell's own work: variables, arithmetic, patterns, functions. Nothing is started.
checksum=0
add() {
    checksum=$(((checksum * 31 + $1) % 1000003))
}
classify() {
    case $1 in
    *[05]) kind=5 ;;
    *3*7*) kind=37 ;;
    1??) kind=100 ;;
    *) kind=0 ;;
    esac
}
i=0
while [ "$i" -lt 80000 ]; do
    classify "$i"
    add $((i ^ kind))
    word="item-$i-${kind}"
    word=${word#item-}
    word=${word%-*}
    [ "$word" = "$i" ] || exit 1
    i=$((i + 1))
done
echo "$checksum"
