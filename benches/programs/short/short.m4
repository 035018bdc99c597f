divert(-1)
define(`loop', `ifelse($1, 0, `', `define(`sum', eval((sum * 31 + $1) % 1000003))loop(decr($1))')')
define(`sum', 1)
define(`again', `ifelse($1, 0, `', `loop(700)again(decr($1))')')
again(110)
divert(0)dnl
sum
