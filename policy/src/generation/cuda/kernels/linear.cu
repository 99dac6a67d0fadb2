// Products in f32 with weights as they were published: y[token][output] = Σ weight[output][input] · x[token][input].
//
// The inputs are dealt to the 32 lanes of a warp in chunks of eight; each lane adds its own with one fused chain, and a tree adds the
// lanes. That is the order for one token and for a thousand: only how many outputs and tokens a warp works on together differs, so that
// no number depends on how many tokens a call has. A lane reads 16 bytes of bf16 at a time, neighbours follow each other, and every
// weight is read once for all tokens of a tile.

struct Linear {
    u64 weight, bias, x, y;
    // Inputs are padded with zeros to chunks of eight, in weights and in x.
    u32 inputs, outputs, tokens, y_stride;
    // Whether y is added to.
    u32 add, unused;
};

#define LINEAR_WARPS 8

// What becomes of a product.
DEVICE void settle(const Linear& a, u32 output, u32 token, float sum) {
    if (a.bias) sum += ((const float*)a.bias)[output];
    float* y = (float*)a.y + (u64)token * a.y_stride + output;
    *y = a.add ? *y + sum : sum;
}

// Adds each of N values over the lanes, in the order of `warp_sum`, while the lanes share the values out among them: value i ends in
// place i % (N / 32) of lane i · 32 / N, or of the first such lanes where N is below 32.
template <int N> DEVICE void deal_sums(float (&values)[N], u32 lane) {
    int count = N;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        if (count > 1) {
            count /= 2;
            const bool upper = (lane & offset) != 0;
#pragma unroll
            for (int i = 0; i < N / 2; i++) {
                if (i < count) {
                    const float keep = upper ? values[i + count] : values[i];
                    const float give = upper ? values[i] : values[i + count];
                    values[i] = keep + __shfl_xor_sync(ALL_LANES, give, offset);
                }
            }
        } else {
            values[0] += __shfl_xor_sync(ALL_LANES, values[0], offset);
        }
    }
}

// Blocks: outputs by LINEAR_WARPS · ROWS, tokens by TOKENS. What lies beyond the ends is computed for the last one again, and dropped.
template <typename Weight, int ROWS, int TOKENS> DEVICE void linear(const Linear& a) {
    constexpr int N = ROWS * TOKENS;
    const u32 lane = threadIdx.x % 32;
    const u32 output = (blockIdx.x * LINEAR_WARPS + threadIdx.x / 32) * ROWS, token = blockIdx.y * TOKENS;
    if (output >= a.outputs) return;
    const Weight* weights[ROWS];
    const float* xs[TOKENS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        weights[r] = (const Weight*)a.weight + (u64)min(output + r, a.outputs - 1) * a.inputs;
#pragma unroll
    for (int t = 0; t < TOKENS; t++) xs[t] = (const float*)a.x + (u64)min(token + t, a.tokens - 1) * a.inputs;
    float sums[N];
#pragma unroll
    for (int i = 0; i < N; i++) sums[i] = 0.0f;
#pragma unroll(N == 1 ? 4 : 1)
    for (u32 at = lane * 8; at < a.inputs; at += 32 * 8) {
        float w[ROWS][8];
#pragma unroll
        for (int r = 0; r < ROWS; r++) load8(weights[r] + at, w[r]);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            float x[8];
            load8(xs[t] + at, x);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
#pragma unroll
                for (int i = 0; i < 8; i++) sums[t * ROWS + r] = fmaf(w[r][i], x[i], sums[t * ROWS + r]);
            }
        }
    }
    deal_sums(sums, lane);
    constexpr int LANES = N < 32 ? 32 / N : 1, EACH = N < 32 ? 1 : N / 32;
    if (lane % LANES != 0) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 index = lane / LANES * EACH + i;
        const u32 r = output + index % ROWS, t = token + index / ROWS;
        if (r < a.outputs && t < a.tokens) settle(a, r, t, sums[i]);
    }
}

#define LINEAR(Weight, name, ROWS, TOKENS)                                                                   \
    KERNEL(linear_##name##_##ROWS##x##TOKENS, Linear, 32 * LINEAR_WARPS) { linear<Weight, ROWS, TOKENS>(a); }
#define LINEARS(Weight, name)                                                                                \
    LINEAR(Weight, name, 1, 1)                                                                               \
    LINEAR(Weight, name, 2, 1)                                                                               \
    LINEAR(Weight, name, 2, 2)                                                                               \
    LINEAR(Weight, name, 2, 4)                                                                               \
    LINEAR(Weight, name, 4, 8)                                                                               \
    LINEAR(Weight, name, 8, 8)

LINEARS(float, f32)
LINEARS(bf16, bf16)
LINEARS(f16, f16)
