# Lists, dictionaries, text and procedures.
proc fibonacci {n} {
    if {$n < 2} {return $n}
    expr {[fibonacci [expr {$n - 1}]] + [fibonacci [expr {$n - 2}]]}
}
set words {}
for {set i 0} {$i < 240000} {incr i} {
    lappend words "word[expr {$i * 7919 % 4999}]"
}
foreach word $words {
    dict incr counts $word
}
set text [join [lsort -unique $words] " "]
set long [regexp -all {word(\d)\d\d\d} $text]
regsub -all {word} $text w text
puts "[dict size $counts] $long [string length $text] [fibonacci 22]"
