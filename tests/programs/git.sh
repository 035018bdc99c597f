# A repository of a few hundred files; fixed dates make every hash comparable.
# needs: git
# seconds: 180
set -eu
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1
git config --global user.name Tester
git config --global user.email tester@example.org
git config --global init.defaultBranch main
git init -q work && cd work
for i in $(seq 1 300); do mkdir -p d$((i % 17)); seq $i $((i + 40)) > d$((i % 17))/file$i; done
git add .
git commit -qm 'first'
for i in 5 50 150; do echo changed >> d$((i % 17))/file$i; git commit -qam "change $i"; done
git checkout -q -b topic HEAD~2
echo topic > topic; git add topic; git commit -qm topic
git merge -q main -m merge
git log --format='%H %s' --graph
git diff --stat HEAD~1
git ls-tree -r HEAD | sha256sum
git gc -q
git count-objects -v | grep -E 'in-pack|packs|garbage'
git fsck --no-progress
git clone -q . ../clone
git -C ../clone log -1 --format=%H
git grep -c 77 | tail -3
git blame -s d5/file5 | tail -2
git archive HEAD | sha256sum
git stash list; git tag v1; git describe --tags; git rev-parse HEAD^{tree}
git checkout -q nowhere || echo "status $?"
