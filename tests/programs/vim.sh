# An editor without a screen.
# optional: vim
set -eu
seq 1 500 > file
vim -Nu NONE -es file <<'VI' || echo "status $?"
%s/7/seven/g
g/9$/d
normal Gonew line
1,3sort! n
wq! out
VI
sha256sum out; tail -2 out
