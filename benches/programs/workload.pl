# A mix of what Perl programs do: regular expressions, hashes, string building, sorting.
use strict;
use warnings;

my $state = 42;
sub below {
    my ($bound) = @_;
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return ($state >> 8) % $bound;
}

my @hosts = map { "host" . below(1000) . ".example.org" } 1 .. 200;
my @paths = map { "/" . join("/", map { "p" . below(40) } 0 .. below(4)) } 1 .. 500;
my @lines;
for my $i (1 .. 200_000) {
    push @lines, sprintf("%s - [%02d:%02d:%02d] \"%s %s\" %d %d", $hosts[below(200)], below(24), below(60),
        below(60), (below(5) ? "GET" : "POST"), $paths[below(500)], (below(9) ? 200 : 404), below(100_000));
}

my (%bytes, %hits, %by_hour, $errors);
for (@lines) {
    next unless /^(\S+) - \[(\d+):\d+:\d+\] "(GET|POST) ([^"]+)" (\d{3}) (\d+)$/;
    my ($host, $hour, $method, $path, $status, $size) = ($1, $2, $3, $4, $5, $6);
    $bytes{$host} += $size;
    $hits{"$method $path"}++;
    $by_hour{$hour}{$status}++;
    $errors++ if $status >= 400;
}
print "errors $errors\n";
for my $host ((sort { $bytes{$b} <=> $bytes{$a} || $a cmp $b } keys %bytes)[0 .. 9]) {
    print "$host $bytes{$host}\n";
}
print join(",", map { $by_hour{$_}{200} // 0 } sort keys %by_hour), "\n";

my $text = join(" ", @lines[0 .. 39_999]);
my $swaps = ($text =~ s/\bp(\d)(\d)\b/q$2$1/g);
my $vowels = ($text =~ tr/aeiou//);
my %pairs;
$pairs{$1}++ while $text =~ /([a-z]{2})(?=\.|\/)/g;
print "swaps $swaps vowels $vowels ", join(" ", map { "$_=$pairs{$_}" } sort keys %pairs), "\n";

my $total = 0;
for my $i (1 .. 500_000) {
    my $digits = reverse($i * 7);
    $total += substr($digits, 0, 3) + length($digits);
}
print "total $total\n";
