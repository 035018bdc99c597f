# awk, sed, grep, bc, m4, tclsh.
# needs: awk sed grep bc m4 tclsh
set -eu
seq 1 30000 | awk '{ a[$1 % 100] += $1 } END { for (i = 0; i < 5; i++) print i, a[i]; print length(a), sqrt(2), sprintf("%x", 255), toupper("x"), substr("hello", 2, 3) }'
awk 'BEGIN { while (("seq 1 5" | getline line) > 0) s += line; print s; system("echo from awk"); split("a:b:c", p, ":"); print p[3]; print match("foobar", /o+/), RLENGTH }'
seq 1 1000 | sed -n '/99$/{s/^/line /;p}; $!d; a end' | head -20
printf 'one two\nthree\n' | sed -E 's/(\w+) (\w+)/\2 \1/; y/abc/ABC/; N; s/\n/+/'
grep -rhoE 'G[A-Z]+' /usr/share/common-licenses/GPL-3 | sort | uniq -c | sort -rn | head -5
grep -c -i -w 'the' /usr/share/common-licenses/GPL-2; grep -P '(?<=free )software' /usr/share/common-licenses/GPL-2 | head -2
echo absent | grep -q present || echo "status $?"
echo 'scale = 60; 4 * a(1); 2 ^ 300; sqrt(2)' | bc -l
echo 'define f(n) { if (n < 2) return n; return f(n - 1) + f(n - 2); } f(18)' | bc
m4 <<'M4'
define(`repeat', `ifelse($1, 0, `', `$2 repeat(decr($1), `$2')')')repeat(5, `word')
eval(2 ** 10 + 0xff) len(`hello') substr(`abcdef', 2, 3) syscmd(`echo sys') esyscmd(`echo esys')
M4
tclsh <<'TCL'
proc fib n { if {$n < 2} { return $n }; expr {[fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
puts [fib 16]
set l {}; for {set i 0} {$i < 1000} {incr i} { lappend l [expr {$i * 7919 % 1009}] }
puts [lrange [lsort -integer $l] 0 4]; puts [regexp -inline {(\w+)@(\w+)} "a@b"]
puts [exec echo from tcl]; if {[catch {error oops} message]} { puts "caught $message" }
puts [clock format 0 -gmt 1 -format %Y-%m-%d]; after 20 { set done 1 }; vwait done; puts [expr {2 ** 100}]
TCL
