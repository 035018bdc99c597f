// Memory of all kinds that a program shares with a GPU: copied, pinned, managed. All sums are of small whole numbers, so that they are
// exact in whatever order they are made.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

static const int count = 1 << 16;

static void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(2);
}

__global__ void add(const int *left, const int *right, int *sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sums[i] = left[i] + 3 * right[i];
}

__global__ void total(const int *numbers, unsigned long long *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(sum, (unsigned long long)numbers[i]);
}

/* A moment at which everything is mapped. */
extern "C" __attribute__((noinline)) void settled(unsigned long long sum)
{
    asm volatile("" : : "r"(sum) : "memory");
}

int main()
{
    int *pinned, *left, *right, *sums;
    unsigned long long *managed;
    check(cudaHostAlloc((void **)&pinned, count * sizeof(int), cudaHostAllocDefault), "cudaHostAlloc");
    check(cudaMalloc((void **)&left, count * sizeof(int)), "cudaMalloc");
    check(cudaMalloc((void **)&right, count * sizeof(int)), "cudaMalloc");
    check(cudaMalloc((void **)&sums, count * sizeof(int)), "cudaMalloc");
    check(cudaMallocManaged((void **)&managed, sizeof *managed), "cudaMallocManaged");
    *managed = 0;
    int *pageable = (int *)malloc(count * sizeof(int));
    for (int i = 0; i < count; i++) {
        pageable[i] = i % 1000;
        pinned[i] = i % 77;
    }
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    check(cudaMemcpy(left, pageable, count * sizeof(int), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpyAsync(right, pinned, count * sizeof(int), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    add<<<count / 256, 256, 0, stream>>>(left, right, sums, count);
    total<<<count / 256, 256, 0, stream>>>(sums, managed, count);
    check(cudaMemcpyAsync(pinned, sums, count * sizeof(int), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    unsigned long long sum = 0;
    for (int i = 0; i < count; i++)
        sum += pinned[i];
    settled(sum);
    unsigned long long other = *managed;
    printf("%llu %llu %d\n", sum, other, sum == other);
    check(cudaFreeHost(pinned), "cudaFreeHost");
    check(cudaDeviceReset(), "cudaDeviceReset");
    return sum != other;
}
