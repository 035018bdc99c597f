s/\([aeiou]\)\([a-z]\)/\2\1/g
/ea/s/ \([a-z]*\) / <\1> /
$!N
s/\n/ /
P
D
