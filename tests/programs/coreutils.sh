# The small tools, hundreds of short processes.
set -eu
seq 1 20000 > numbers
for sum in md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum; do $sum numbers; done
split -n 7 numbers part.; cat part.* | cmp - numbers; ls part.*
shuf --random-source=/dev/zero numbers | head -3
paste -d: <(head -3 numbers) <(tail -3 numbers)
comm -12 <(sort numbers) <(seq 5 5 50 | sort)
od -A x -t x1z /bin/true | head -20
base64 numbers | base64 -d | cmp - numbers
fold -w 20 < numbers | head -2; nl numbers | tail -1; tac numbers | head -1; rev numbers | tail -1
factor 1234567890123 18446744073709551557; numfmt --to=iec 123456789
date -u -d @1000000000 +%FT%T; expr 6 \* 7; printf '%q\n' "a b'c"
mkdir -p tree/{a,b,c}/{1,2,3}; find tree -type d | sort | xargs -n 2 -P 2 echo | sort
find tree -name '[12]' -exec touch {}/file \; -print | sort; du -a --apparent-size tree | wc -l
ln -s tree link; readlink -f link | xargs basename; stat -c '%F %a' tree link; cp -a tree copy; diff -r tree copy
chmod 640 tree/a/1/file; stat -c %A tree/a/1/file; rm -r copy; test ! -e copy
dd if=numbers bs=7 count=3 status=none; tee copy1 copy2 < numbers | tail -c 6; truncate -s 5 copy1; wc -c copy1
env -i A=1 env; nice -n 5 nice; nohup true 2>/dev/null; tsort <<< 'a b b c'; join <(echo 1 x) <(echo 1 y)
for i in $(seq 1 150); do /usr/bin/true; done; echo "$(/usr/bin/echo done)"
