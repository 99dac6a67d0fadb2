// What all kernels share. The same text is compiled by NVRTC for GPUs and, in tests, by a C++ compiler for an emulator, which brings
// `emulator.h` and with it the words of CUDA that are used here.
//
// Numbers. Nothing is contracted: a fused multiply-add stands where it is written. So the emulator computes the very bits of a GPU, but
// for the sums within `mma`.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef EMULATOR
#define DEVICE __device__ __forceinline__
// A kernel takes one structure, by value, and blocks of at most `threads` threads.
#define KERNEL(name, Arguments, threads) extern "C" __global__ void __launch_bounds__(threads) name(const Arguments a)
#define DYNAMIC_SHARED(name) extern __shared__ float4 name##_aligned[]; float* name = (float*)name##_aligned
#endif

#define ALL_LANES 0xffffffffu
#define MINUS_INFINITY __uint_as_float(0xff800000u)

// Tokens of a page of keys and values: as in `shape.rs`.
#define PAGE_TOKENS 32

// A bf16 or f16 number as it is stored.
struct bf16 { u16 bits; };
struct f16 { u16 bits; };

DEVICE float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

DEVICE float widen(float x) { return x; }

DEVICE float widen(f16 x) {
#ifndef EMULATOR
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#else
    return half_to_float(x.bits);
#endif
}

// Rounds to nearest even. NaN stays NaN.
DEVICE bf16 to_bf16(float x) {
    const u32 bits = __float_as_uint(x);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bf16 y;
    y.bits = (u16)(nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    return y;
}

DEVICE void store(float* to, float x) { *to = x; }

DEVICE void store(bf16* to, float x) { *to = to_bf16(x); }

// Eight neighbours, aligned to 16 bytes.
DEVICE void load8(const float* from, float (&to)[8]) {
    const float4 a = ((const float4*)from)[0], b = ((const float4*)from)[1];
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

template <typename Half> DEVICE void load8_halves(const Half* from, float (&to)[8]) {
    const uint4 a = *(const uint4*)from;
    const u32 words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        Half low, high;
        low.bits = (u16)words[i], high.bits = (u16)(words[i] >> 16);
        to[2 * i] = widen(low), to[2 * i + 1] = widen(high);
    }
}

DEVICE void load8(const bf16* from, float (&to)[8]) { load8_halves(from, to); }

DEVICE void load8(const f16* from, float (&to)[8]) { load8_halves(from, to); }

// Σ over the lanes of a warp, the same in each of them.
template <typename Number> DEVICE Number warp_sum(Number x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
    return x;
}

DEVICE float larger(float a, float b) { return a > b ? a : b; }

DEVICE float warp_max(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x = larger(x, __shfl_xor_sync(ALL_LANES, x, offset));
    return x;
}

// e^x as `math::exp` computes it: x is clamped to ±87, NaN stays NaN.
DEVICE float exponential(float x) {
    const float magic = 12582912.0f;
    x = x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x);
    const float shifted = x * 1.44269504f + magic;
    const float n = shifted - magic;
    const float r = x - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.98756915e-4f;
    p = p * r + 1.39819994e-3f;
    p = p * r + 8.33345205e-3f;
    p = p * r + 4.16657962e-2f;
    p = p * r + 0.166666657f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return p * __uint_as_float((__float_as_uint(shifted) + 127u) << 23);
}
