# A repository from nothing: files, commits, a branch, a merge, questions about it.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_AUTHOR_DATE='2001-01-01 00:00 +0000'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com GIT_COMMITTER_DATE='2001-01-01 00:00 +0000'
rm -rf repository
git init -q -b main repository
cd repository || exit 1
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    seq "$i" "$((i * 200))" >"file$i"
    git add "file$i"
    git commit -q -m "file $i"
done
git checkout -q -b other HEAD~4
seq 50 90 >extra
git add extra
git commit -q -m extra
git checkout -q main
git merge -q --no-edit other
git log --format='%h %s' --stat | tail -n 20
git diff HEAD~3 --shortstat
git status --short
git rev-parse HEAD
