# Text by lines.
my (%count, $sum);
while (<>) {
    $count{lc $1}++ while /\b([a-z]{4,})\b/g;
    $sum += tr/e//;
}
print scalar(keys %count), " $sum ", (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0], "\n";
