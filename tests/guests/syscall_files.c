// Files: directories, links, vectored and positioned I/O, locks, times, attributes, splice and
// copy_file_range, and their errors.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>

static int compare(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

int main(void) {
    CHECK_EQ(mkdir("d", 0755), 0);
    CHECK_EQ(chdir("d"), 0);
    char name[20], here[4096];
    for (int i = 0; i < 300; i++) {
        sprintf(name, "file-%03d", i);
        int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0640);
        CHECK(file >= 0);
        CHECK_EQ(write(file, name, i % 8), i % 8);
        close(file);
    }
    struct dirent **entries;
    int count = scandir(".", &entries, NULL, compare);
    printf("%d entries, last %s\n", count, entries[count - 1]->d_name);
    CHECK(getcwd(here, sizeof here) && strcmp(strrchr(here, '/'), "/d") == 0);
    struct stat info;
    CHECK_EQ(stat("file-007", &info), 0);
    printf("size %ld mode %o links %lu\n", info.st_size, info.st_mode, (unsigned long)info.st_nlink);
    CHECK_EQ(link("file-007", "linked"), 0);
    CHECK_EQ(symlink("linked", "soft"), 0);
    CHECK_EQ(rename("file-008", "renamed"), 0);
    char target[20] = "";
    CHECK_EQ(readlink("soft", target, 20), 6);
    CHECK_EQ(lstat("soft", &info), 0);
    CHECK(S_ISLNK(info.st_mode));
    CHECK_FAILS(open("missing", O_RDONLY), ENOENT);
    CHECK_FAILS(open("linked", O_CREAT | O_EXCL), EEXIST);
    CHECK_FAILS(rmdir("."), EINVAL);
    CHECK_FAILS(open("linked", O_RDONLY | O_DIRECTORY), ENOTDIR);

    int file = open("data", O_CREAT | O_RDWR, 0600);
    struct iovec parts[3] = {{"abc", 3}, {"defgh", 5}, {"ij", 2}};
    CHECK_EQ(writev(file, parts, 3), 10);
    CHECK_EQ(pwrite(file, "XY", 2, 4), 2);
    CHECK_EQ(lseek(file, 0, SEEK_CUR), 10);
    char text[30] = "";
    CHECK_EQ(pread(file, text, 20, 0), 10);
    puts(text);
    CHECK_EQ(ftruncate(file, 100000), 0);
    CHECK_EQ(lseek(file, -5, SEEK_END), 99995);
    CHECK_EQ(fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    int other = open("copy", O_CREAT | O_RDWR, 0600);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQ(sendfile(other, file, NULL, 10), 10);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    loff_t offset = 2;
    CHECK_EQ(splice(file, &offset, ends[1], NULL, 5, 0), 5);
    CHECK_EQ(read(ends[0], text, 5), 5);
    text[5] = 0;
    puts(text);
    CHECK_EQ(flock(file, LOCK_EX), 0);
    int again = open("data", O_RDWR);
    CHECK_FAILS(flock(again, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    struct timespec times[2] = {{1000000, 5}, {2000000, 7}};
    CHECK_EQ(futimens(file, times), 0);
    CHECK_EQ(fstat(file, &info), 0);
    printf("times %ld %ld\n", info.st_atim.tv_sec, info.st_mtim.tv_nsec);
    CHECK_EQ(fchmod(file, 0444), 0);
    struct statx extended;
    CHECK_EQ(statx(AT_FDCWD, "data", 0, STATX_SIZE | STATX_MODE, &extended), 0);
    printf("statx %llu %o\n", (unsigned long long)extended.stx_size, extended.stx_mode);
    CHECK_EQ(access("data", R_OK), 0);
    CHECK_EQ(unlink("data"), 0);
    CHECK_EQ(fstat(file, &info), 0);
    CHECK_EQ(info.st_nlink, 0);
    int flags = fcntl(file, F_GETFL);
    CHECK_EQ(flags & O_ACCMODE, O_RDWR);
    CHECK_EQ(fcntl(file, F_SETFL, flags | O_APPEND), 0);
    CHECK_EQ(write(file, "end", 3), 3);
    CHECK_EQ(lseek(file, 0, SEEK_CUR), 100003);
    puts("done");
}
