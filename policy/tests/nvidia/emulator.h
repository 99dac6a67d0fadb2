// The words of CUDA that the kernels use, for a C++ compiler: a block's threads are fibers of one thread, which run one after the other
// until they meet at a barrier. Blocks run one after the other.
//
// What it finds: threads that do not come to a barrier which others wait at (the launch fails), shared memory that is read before others
// have written to it (it is filled with NaN first, and fibers can be run in either order), and numbers that differ from those expected.
// What it does not: anything about speed, and races between blocks.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

#define EMULATOR
#define DEVICE static inline
#define __device__
#define __restrict__

struct uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct Dim { uint32_t x, y, z; };

namespace emulator {

constexpr int MOST_THREADS = 1024, STACK = 256 << 10;

struct Barrier { uint32_t waiting, generation; };

struct Fiber {
    ucontext_t start;
    void* place[5];
    Dim thread;
    bool begun;
    // The ring of those that are not over.
    Fiber *next, *previous;
};

typedef void (*Body)(const void*);

// What one thread of the machine emulates at a time.
struct Machine {
    Fiber* fibers;
    char* stacks;
    Fiber* now;
    // Who launches, and from which fiber on nothing has moved.
    void* launcher[5];
    uint32_t idle;
    // Fibers of this launch, and how many are not over.
    uint32_t threads, left;
    Dim block, blocks, size;
    Barrier whole, warps[MOST_THREADS / 32];
    // What lanes hand each other, twice: a lane may be in the next exchange while its neighbours read the last one.
    uint64_t exchange[MOST_THREADS / 32][2][32];
    uint32_t mma_operands[MOST_THREADS / 32][2][32][6];
    uint32_t turn[MOST_THREADS];
    float* shared;
    Body body;
    const void* arguments;
};

static thread_local Machine* own_machine;

inline Machine& machine() { return *own_machine; }

inline uint32_t index() { return machine().now->thread.x; }

// Goes to a fiber's place, or to its beginning.
[[noreturn]] inline void enter(Machine& m, Fiber& fiber) {
    m.now = &fiber;
    if (fiber.begun) __builtin_longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.start);
    abort();
}

[[noreturn]] __attribute__((noinline)) inline void leave(Machine& m) {
    // Back to the launcher when all are over, or when each has waited in vain.
    if (m.left == 0 || m.idle > m.threads) __builtin_longjmp(m.launcher, 1);
    enter(m, *m.now->next);
}

__attribute__((noinline)) inline void yield() {
    Machine& m = machine();
    if (__builtin_setjmp(m.now->place) == 0) leave(m);
}

inline void wait(Barrier& barrier, uint32_t threads) {
    Machine& m = machine();
    m.idle = 0;
    const uint32_t generation = barrier.generation;
    if (++barrier.waiting == threads) {
        barrier.waiting = 0;
        barrier.generation++;
        return;
    }
    do {
        m.idle++;
        yield();
    } while (barrier.generation == generation);
    m.idle = 0;
}

// A fiber works for block after block.
inline void run_fiber() {
    for (;;) {
        Machine& m = machine();
        m.body(m.arguments);
        Fiber& fiber = *m.now;
        fiber.next->previous = fiber.previous, fiber.previous->next = fiber.next;
        m.left--;
        m.idle = 0;
        yield();
    }
}

// Runs one block.
__attribute__((noinline)) inline void run_block(Machine& m) {
    if (__builtin_setjmp(m.launcher) == 0) enter(m, *m.now);
}

// 0, or 1 where threads wait for others that never come.
inline int launch(Body body, const void* arguments, const uint32_t* blocks, uint32_t threads, uint32_t shared, int backwards) {
    if (!own_machine) {
        own_machine = (Machine*)calloc(1, sizeof(Machine));
        own_machine->fibers = (Fiber*)calloc(MOST_THREADS, sizeof(Fiber));
        own_machine->stacks = (char*)malloc((size_t)MOST_THREADS * STACK);
        own_machine->shared = (float*)aligned_alloc(16, 1 << 18);
    }
    Machine& m = machine();
    if (threads == 0 || threads > MOST_THREADS || threads % 32 || shared > (48u << 10)) return 2;
    m.body = body, m.arguments = arguments;
    m.threads = threads;
    m.blocks = {blocks[0], blocks[1], blocks[2]}, m.size = {threads, 1, 1};
    for (m.block.z = 0; m.block.z < blocks[2]; m.block.z++)
        for (m.block.y = 0; m.block.y < blocks[1]; m.block.y++)
            for (m.block.x = 0; m.block.x < blocks[0]; m.block.x++) {
                memset(m.shared, 0xff, shared);
                memset(&m.whole, 0, sizeof m.whole);
                memset(m.warps, 0, sizeof m.warps);
                memset(m.turn, 0, sizeof m.turn);
                m.left = threads, m.idle = 0;
                for (uint32_t i = 0; i < threads; i++) {
                    Fiber& fiber = m.fibers[i];
                    fiber.next = &m.fibers[(i + (backwards ? threads - 1 : 1)) % threads];
                    fiber.previous = &m.fibers[(i + (backwards ? 1 : threads - 1)) % threads];
                    if (fiber.begun) continue;
                    fiber.thread = {i, 0, 0};
                    getcontext(&fiber.start);
                    fiber.start.uc_stack.ss_sp = m.stacks + (size_t)i * STACK;
                    fiber.start.uc_stack.ss_size = STACK;
                    fiber.start.uc_link = nullptr;
                    makecontext(&fiber.start, run_fiber, 0);
                }
                m.now = &m.fibers[backwards ? threads - 1 : 0];
                run_block(m);
                if (m.left > 0) {
                    for (uint32_t i = 0; i < threads; i++) m.fibers[i].begun = false;
                    return 1;
                }
            }
    return 0;
}

// What lane `from` of this warp handed in.
template <typename Number> inline Number exchange(Number x, uint32_t from) {
    Machine& m = machine();
    const uint32_t thread = index(), warp = thread / 32, turn = m.turn[thread]++ % 2;
    uint64_t word = 0;
    memcpy(&word, &x, sizeof x);
    m.exchange[warp][turn][thread % 32] = word;
    wait(m.warps[warp], 32);
    memcpy(&x, &m.exchange[warp][turn][from], sizeof x);
    return x;
}

} // namespace emulator

#define threadIdx (emulator::machine().now->thread)
#define blockIdx (emulator::machine().block)
#define blockDim (emulator::machine().size)
#define gridDim (emulator::machine().blocks)

// One block runs at a time in a thread.
#define __shared__ static thread_local
#define DYNAMIC_SHARED(name) float* name = emulator::machine().shared

#define KERNEL(name, Arguments, threads)                                                                       \
    static void name##_body(const Arguments& a);                                                               \
    extern "C" int name(const void* arguments, const uint32_t* blocks, uint32_t size, uint32_t shared, int backwards) { \
        static_assert(threads <= emulator::MOST_THREADS, "");                                                  \
        if (size > threads) return 3;                                                                          \
        return emulator::launch([](const void* a) { name##_body(*(const Arguments*)a); }, arguments, blocks, size, shared, backwards); \
    }                                                                                                          \
    extern "C" const uint32_t name##_arguments = sizeof(Arguments);                                            \
    static void name##_body(const Arguments& a)

inline void __syncthreads() { emulator::wait(emulator::machine().whole, emulator::machine().size.x); }

template <typename Number> inline Number __shfl_xor_sync(uint32_t, Number x, int with) {
    return emulator::exchange(x, (emulator::index() % 32) ^ with);
}

template <typename Number> inline Number __shfl_up_sync(uint32_t, Number x, int by) {
    const int lane = emulator::index() % 32;
    return emulator::exchange(x, lane < by ? lane : lane - by);
}

inline float __uint_as_float(uint32_t x) {
    float y;
    memcpy(&y, &x, 4);
    return y;
}

inline uint32_t __float_as_uint(float x) {
    uint32_t y;
    memcpy(&y, &x, 4);
    return y;
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

inline uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }

inline float half_to_float(uint16_t bits) {
    const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf(1024 + mantissa, (int)exponent - 25) : ldexpf(mantissa, -24));
}

// m16n8k16: exact products and sums, rounded once. What a GPU rounds within a step is not specified.
DEVICE void mma(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    emulator::Machine& m = emulator::machine();
    const uint32_t thread = emulator::index(), warp = thread / 32, lane = thread % 32, turn = m.turn[thread]++ % 2;
    const uint32_t operands[6] = {a0, a1, a2, a3, b0, b1};
    memcpy(m.mma_operands[warp][turn][lane], operands, sizeof operands);
    emulator::wait(m.warps[warp], 32);
    const auto& all = m.mma_operands[warp][turn];
    const auto half = [](uint32_t word, int which) { return (double)__uint_as_float(which ? word & 0xffff0000u : word << 16); };
    for (int i = 0; i < 4; i++) {
        const uint32_t row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + i % 2;
        double exact = sum[i];
        for (uint32_t k = 0; k < 16; k++) {
            // A lane has the inputs 2 · (lane % 4) and the next one, and both again 8 further on.
            const uint32_t pair = k % 8 / 2;
            const uint32_t a = all[row % 8 * 4 + pair][(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)];
            const uint32_t b = all[column * 4 + pair][4 + (k >= 8 ? 1 : 0)];
            exact += half(a, k % 2) * half(b, k % 2);
        }
        sum[i] = (float)exact;
    }
}
