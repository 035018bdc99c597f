# Regular expressions, fork, pipes, signals, sorting, closures, pack, sockets, tie.
# needs: perl
# stderr: varies
set -eu
perl -we '
use strict; use POSIX ":sys_wait_h"; use Socket; use List::Util qw(sum shuffle reduce);
my $text = join " ", map { "key$_=value" . $_ * $_ } 1 .. 5000;
my %map; $map{$1} = $2 while $text =~ /(\w+)=(\w+)/g;
print scalar(keys %map), " ", $map{key4999}, "\n";
(my $copy = $text) =~ s/value(\d+)/<$1>/g; print length $copy, "\n";
print join(",", sort { $a <=> $b } map { length } $text =~ /\b\w*9{2}\w*\b/g), "\n";
my $nested = qr/(\((?:[^()]++|(?1))*\))/; print "balanced $1\n" if "x(a(b)c(d(e)))y)" =~ $nested;
print join("|", "2024-05-06" =~ /(?<y>\d+)-(?<m>\d+)-(?<d>\d+)/), " $+{m}\n";
print "unicode ", ("\x{e9}t\x{e9}" =~ /^\w+$/ ? 1 : 0), "\n"; print "aab" x 3 =~ tr/a//, "\n";
my @children;
for my $n (1 .. 8) {
  pipe my $r, my $w or die; my $pid = fork // die;
  if (!$pid) { close $r; print $w sum(map { $_ * $n } 1 .. 1000), "\n"; close $w; POSIX::_exit($n) }
  close $w; push @children, [$pid, $r];
}
for (@children) { my ($pid, $r) = @$_; chomp(my $l = <$r>); waitpid $pid, 0; print "$l ", $? >> 8, "\n" }
my $got = 0; local $SIG{ALRM} = sub { $got++ }; alarm 1; select undef, undef, undef, 3; print "alarm $got\n";
my $r = eval { local $SIG{ALRM} = sub { die "late\n" }; alarm 1; 1 while 1; 1 }; print "died $@";
socketpair my $near, my $far, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die; 
syswrite $near, pack("NnCa*", 1, 2, 3, "rest"); sysread $far, my $buf, 100; print join(" ", unpack "NnCa*", $buf), "\n";
my @sorted = sort { $a->[1] <=> $b->[1] || $a->[0] cmp $b->[0] } map { [chr(97 + $_ % 26), $_ * 7919 % 1009] } 1 .. 5000;
print join(" ", map { "@$_" } @sorted[0, 1, 2, -1]), "\n";
my $fib; $fib = sub { my $n = shift; $n < 2 ? $n : $fib->($n - 1) + $fib->($n - 2) }; print $fib->(18), "\n";
print sprintf("%.6f %e %g", atan2(1, 1) * 4, 12345.678, 1e-7), "\n"; print `echo backtick`, $? >> 8, "\n";
system "exit 3;"; print $? >> 8, "\n"; open my $p, "-|", "seq 1 100 | tail -1" or die; print <$p>; close $p;
print "done\n";'
perl -e 'kill SEGV => $$' || echo "status $?"
