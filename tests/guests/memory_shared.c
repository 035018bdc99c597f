// Shared memory: anonymous across fork, a file, memfd with seals, System V segments; private
// copies stay private.
#include "check.h"
#include <fcntl.h>
#include <sys/shm.h>

int main(void) {
    volatile int *anonymous = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int memory = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0);
    CHECK_EQ(ftruncate(memory, 8192), 0);
    volatile int *first = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    volatile int *second = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 4096);
    int segment = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
    CHECK(segment >= 0);
    volatile int *attached = shmat(segment, NULL, 0);
    CHECK(attached != (void *)-1);

    pid_t child = fork();
    if (child == 0) {
        anonymous[0] = 11;
        private[0] = 12;
        first[0] = 13;
        first[1024] = 14;
        attached[0] = 15;
        _exit(0);
    }
    CHECK_EQ(exit_code_of(child), 0);
    printf("anonymous %d, private %d, memfd %d %d, segment %d\n", anonymous[0], private[0], first[0], second[0],
           attached[0]);

    volatile int *again = shmat(segment, NULL, SHM_RDONLY);
    CHECK(again != (void *)-1 && again != attached);
    CHECK_EQ(again[0], 15);
    struct shmid_ds state;
    CHECK_EQ(shmctl(segment, IPC_STAT, &state), 0);
    CHECK_EQ(state.shm_nattch, 2);
    CHECK_EQ(shmctl(segment, IPC_RMID, NULL), 0);
    CHECK_EQ(shmdt((void *)again), 0);
    char *place = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_FAILS(shmat(segment, place, 0), EINVAL);
    volatile int *remapped = shmat(segment, place, SHM_REMAP);
    if (remapped != (void *)-1) CHECK(remapped == (void *)place && remapped[0] == 15);
    CHECK_EQ(shmdt((void *)attached), 0);
    CHECK_FAILS(shmdt((void *)attached), EINVAL);

    CHECK_EQ(munmap((void *)first, 8192), 0);
    CHECK_EQ(munmap((void *)second, 4096), 0);
    CHECK_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    CHECK_FAILS(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0), EPERM);
    CHECK_FAILS(ftruncate(memory, 0), EPERM);

    // Another process's file mapping, through the file itself.
    int file = open("shared-file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(ftruncate(file, 4096), 0);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    strcpy(map, "through the mapping");
    CHECK_EQ(msync(map, 4096, MS_SYNC), 0);
    char text[50] = "";
    CHECK_EQ(pread(file, text, 19, 0), 19);
    CHECK_EQ(pwrite(file, "THROUGH", 7, 0), 7);
    printf("%s, %s\n", text, map);
}
