// Products of bf16 on tensor cores, with sums in f32.
//
// Sixteen outputs and eight tokens are multiplied at a time, 16 inputs deep: `mma.sync.m16n8k16`. The inputs are cut into eight slices,
// each one chain of such steps, and slices are added in order. For few tokens eight warps take a slice each; for many, one warp goes
// through all of them. Fewer than eight tokens are filled up. So a number comes about in the same way however many tokens a call has.
//
// Which inputs stand where in a step is of no account as long as weights and activations agree: a lane's 16 bytes of a row are the four
// operands of two steps, and nothing has to be rearranged.

#define SLICES 8
// Inputs of two steps, to which rows are padded.
#define STEP 32

#ifndef EMULATOR
// sum += weights · x: the operands of a lane are those of the instruction.
DEVICE void mma(float (&sum)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif

// The sums of one slice for 16 · ROWS outputs and 8 · TOKENS tokens.
template <int ROWS, int TOKENS>
DEVICE void slice(const Linear& a, u32 output, u32 token, u32 which, float (&sums)[ROWS][TOKENS][4]) {
    const u32 lane = threadIdx.x % 32, steps = a.inputs / STEP;
    const u32 first = steps * which / SLICES, end = steps * (which + 1) / SLICES, column = lane % 4 * 8;
    const bf16 *low[ROWS], *high[ROWS], *xs[TOKENS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const u32 row = output + r * 16 + lane / 4;
        low[r] = (const bf16*)a.weight + (u64)min(row, a.outputs - 1) * a.inputs + column;
        high[r] = (const bf16*)a.weight + (u64)min(row + 8, a.outputs - 1) * a.inputs + column;
    }
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
        xs[t] = (const bf16*)a.x + (u64)min(token + t * 8 + lane / 4, a.tokens - 1) * a.inputs + column;
#pragma unroll
        for (int r = 0; r < ROWS; r++) sums[r][t][0] = sums[r][t][1] = sums[r][t][2] = sums[r][t][3] = 0.0f;
    }
#pragma unroll(ROWS * TOKENS <= 2 ? 4 : 1)
    for (u32 step = first; step < end; step++) {
        uint4 x[TOKENS];
#pragma unroll
        for (int t = 0; t < TOKENS; t++) x[t] = *(const uint4*)(xs[t] + step * STEP);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const uint4 w = *(const uint4*)(low[r] + step * STEP), v = *(const uint4*)(high[r] + step * STEP);
#pragma unroll
            for (int t = 0; t < TOKENS; t++) {
                mma(sums[r][t], w.x, v.x, w.y, v.y, x[t].x, x[t].y);
                mma(sums[r][t], w.z, v.z, w.w, v.w, x[t].z, x[t].w);
            }
        }
    }
}

// Where the number `index` of a lane's four sums lies in its tile.
DEVICE void settle_tile(const Linear& a, u32 output, u32 token, u32 lane, int index, float sum) {
    const u32 row = output + lane / 4 + (index >= 2 ? 8 : 0), column = token + lane % 4 * 2 + index % 2;
    if (row < a.outputs && column < a.tokens) settle(a, row, column, sum);
}

// Few tokens. Blocks: outputs by 16, tokens by 8 · TOKENS; a warp for each slice.
template <int TOKENS> DEVICE void few(const Linear& a) {
    __shared__ float parts[SLICES][TOKENS][4][32];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, output = blockIdx.x * 16, token = blockIdx.y * 8 * TOKENS;
    float sums[1][TOKENS][4];
    slice<1, TOKENS>(a, output, token, warp, sums);
#pragma unroll
    for (int t = 0; t < TOKENS; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++) parts[warp][t][i][lane] = sums[0][t][i];
    }
    __syncthreads();
    for (u32 at = warp; at < TOKENS * 4; at += SLICES) {
        const u32 t = at / 4, i = at % 4;
        float sum = parts[0][t][i][lane];
#pragma unroll
        for (int s = 1; s < SLICES; s++) sum += parts[s][t][i][lane];
        settle_tile(a, output, token + t * 8, lane, i, sum);
    }
}

KERNEL(mma_few_1, Linear, 32 * SLICES) { few<1>(a); }
KERNEL(mma_few_2, Linear, 32 * SLICES) { few<2>(a); }
KERNEL(mma_few_4, Linear, 32 * SLICES) { few<4>(a); }

#define MANY_ROWS 4
#define MANY_TOKENS 4
#define MANY_WARPS 4

// Many tokens. Blocks: outputs by 64 · 2, tokens by 32 · 2; two by two warps.
KERNEL(mma_many, Linear, 32 * MANY_WARPS) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 output = (blockIdx.x * 2 + warp % 2) * 16 * MANY_ROWS, token = (blockIdx.y * 2 + warp / 2) * 8 * MANY_TOKENS;
    if (output >= a.outputs || token >= a.tokens) return;
    float totals[MANY_ROWS][MANY_TOKENS][4], sums[MANY_ROWS][MANY_TOKENS][4];
    slice<MANY_ROWS, MANY_TOKENS>(a, output, token, 0, totals);
#pragma unroll 1
    for (u32 s = 1; s < SLICES; s++) {
        slice<MANY_ROWS, MANY_TOKENS>(a, output, token, s, sums);
#pragma unroll
        for (int r = 0; r < MANY_ROWS; r++)
#pragma unroll
            for (int t = 0; t < MANY_TOKENS; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) totals[r][t][i] += sums[r][t][i];
    }
#pragma unroll
    for (int r = 0; r < MANY_ROWS; r++)
#pragma unroll
        for (int t = 0; t < MANY_TOKENS; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) settle_tile(a, output + r * 16, token + t * 8, lane, i, totals[r][t][i]);
}
