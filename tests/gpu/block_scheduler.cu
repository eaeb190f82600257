// When does a small kernel get in beside a large one? What `device_share`, `waves` and `comm_priority`
// of the simulator stand for, measured: nvcc -O2 -arch=native block_scheduler.cu -o b && ./b
//
// The large kernel runs in waves of 1 ms, two blocks of 1,024 threads a multiprocessor, so that no
// thread is left, or one where its shared memory keeps a second one out. 300 us after it has begun, a
// small kernel of 16 blocks of 512 threads is launched on another stream. Printed: when it started,
// and when the large one ended, in ms from the start of the large one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#define CHECK(call)                                                          \
    if (cudaError_t e = (call)) {                                            \
        std::printf("%s: %s\n", #call, cudaGetErrorString(e));               \
        return 1;                                                            \
    }

__device__ unsigned long long now() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Every block is busy for `ns`; times[0] is the first start, times[1] the last end.
__global__ void spin(unsigned long long ns, unsigned long long* times) {
    extern __shared__ char unused[];
    unsigned long long begin = now();
    if (threadIdx.x == 0) atomicMin(&times[0], begin);
    while (now() - begin < ns) {
    }
    if (threadIdx.x == 0) atomicMax(&times[1], now());
}

struct Case {
    const char* name;
    int waves;
    bool limited, raised;
    int kernels;  // large ones one after another
};

int main() {
    int processors, low, high;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
    CHECK(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 * 1024));
    // Else a multiprocessor has shared memory for the large kernel alone, and is emptied for another.
    CHECK(cudaFuncSetAttribute(spin, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    unsigned long long* times;
    CHECK(cudaMalloc(&times, 64));
    std::vector<Case> cases;
    for (int waves : {1, 4, 16})
        for (bool limited : {false, true})
            for (bool raised : {false, true}) cases.push_back({"one kernel", waves, limited, raised, 1});
    for (bool raised : {false, true}) cases.push_back({"four kernels", 4, false, raised, 4});
    std::printf("%-13s %5s %8s %9s %12s %10s\n", "large", "waves", "limited", "priority", "small began",
                "large ended");
    for (const Case& c : cases) {
        std::vector<double> began, ended;
        for (int trial = 0; trial < 6; ++trial) {
            cudaStream_t large, small;
            CHECK(cudaStreamCreateWithPriority(&large, cudaStreamNonBlocking, low));
            CHECK(cudaStreamCreateWithPriority(&small, cudaStreamNonBlocking, c.raised ? high : low));
            unsigned long long init[8] = {~0ull, 0, ~0ull, 0, 0, 0, 0, 0};
            CHECK(cudaMemcpy(times, init, 64, cudaMemcpyHostToDevice));
            CHECK(cudaDeviceSynchronize());
            int each = c.limited ? 1 : 2;
            size_t shared = c.limited ? 130 * 1024 : 16;
            for (int k = 0; k < c.kernels; ++k)
                spin<<<processors * each * c.waves, 1024, shared, large>>>(1000000, times);
            auto launched = std::chrono::steady_clock::now();
            while (std::chrono::steady_clock::now() - launched < std::chrono::microseconds(300)) {
            }
            spin<<<16, 512, 16, small>>>(100000, times + 2);
            CHECK(cudaDeviceSynchronize());
            unsigned long long out[8];
            CHECK(cudaMemcpy(out, times, 64, cudaMemcpyDeviceToHost));
            if (trial > 0) {  // the first one warms up
                began.push_back((double(out[2]) - double(out[0])) * 1e-6);
                ended.push_back((double(out[1]) - double(out[0])) * 1e-6);
            }
            CHECK(cudaStreamDestroy(large));
            CHECK(cudaStreamDestroy(small));
        }
        std::sort(began.begin(), began.end());
        std::sort(ended.begin(), ended.end());
        std::printf("%-13s %5d %8s %9s %12.3f %10.3f   (%.3f to %.3f)\n", c.name, c.waves,
                    c.limited ? "yes" : "no", c.raised ? "high" : "same", began[2], ended[2], began[0],
                    began[4]);
    }
    return 0;
}
