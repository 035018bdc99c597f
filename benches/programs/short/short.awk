# Counts of words, then of their lengths.
{ for (i = 1; i <= NF; i++) count[$i]++ }
END {
    for (word in count) { lengths[length(word)] += count[word]; all++ }
    for (n = 1; n < 30; n++) if (lengths[n]) print n, lengths[n]
    print all
}
