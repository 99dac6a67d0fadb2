// Attention over pages, in f32; its outputs are operands of the next product.
//
// The positions that a token sees are cut into partitions of 256, whatever else is computed. A partition has its own maximum, sum and
// output; partitions are merged in order. So it makes no difference to any number whether one block goes through all partitions or many
// blocks take one each, and which tokens share a block.
//
// A block works on up to ROWS rows: a row is a query head of a token, and rows of a block share their key-value head and their sequence.

struct Attention {
    // Rows of queries, keys and values, one a token: only queries are read, which are scaled already.
    u64 qkv;
    u64 visible, pages;
    // A `Task` for each x of the grid.
    u64 tasks;
    u64 attended;
    // Outputs of partitions, [token][head][partition][stored_dim], and their maxima and sums, [token][head][partition][2]; 0 where a block
    // goes through all partitions.
    u64 partial, stats;
    u32 heads, kv_heads, dim, stored_dim;
    u32 keys, values, attended_stride, partitions;
};

struct Task {
    // The first token of a span of neighbours in one sequence; the first row of this block, and how many; where the pages begin.
    u32 token, row, rows, first_page;
};

#define ATTENTION_THREADS 256
#define PARTITION 256
#define SUBPARTS 4

// What a partition's part of the sum is multiplied with when sums with these maxima are merged.
DEVICE float merge_scale(float own, float both) { return own == both ? 1.0f : exponential(own - both); }

DEVICE float merge(float one, float scale, float other, float other_scale) {
    return one * scale + other * other_scale;
}

template <typename Output, int ROWS> DEVICE void attend(const Attention& a) {
    DYNAMIC_SHARED(memory);
    const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32, dim = a.stored_dim;
    float* queries = memory;                           // [ROWS][dim]
    float* weights = queries + ROWS * dim;             // [ROWS][PARTITION]
    float* parts = weights + ROWS * PARTITION;         // [SUBPARTS][ROWS][dim]
    float* outputs = parts + SUBPARTS * ROWS * dim;    // [ROWS][dim]
    __shared__ float warps[ROWS][ATTENTION_THREADS / 32];
    __shared__ float maxima[ROWS], sums[ROWS];
    __shared__ u32 sights[ROWS];

    const Task task = ((const Task*)a.tasks)[blockIdx.x];
    const u32 kv_head = blockIdx.y, group = a.heads / a.kv_heads, block = dim * PAGE_TOKENS;
    const u64 width = (u64)(a.heads + 2 * a.kv_heads) * a.dim;
    const u64* pages = (const u64*)a.pages + task.first_page;
    for (u32 i = thread; i < ROWS * dim; i += ATTENTION_THREADS) {
        const u32 r = i / dim, d = i % dim, row = task.row + r;
        float value = 0.0f;
        if (r < task.rows && d < a.dim)
            value = ((const float*)a.qkv)[(task.token + row / group) * width + (kv_head * group + row % group) * a.dim + d];
        queries[i] = value;
    }
    if (thread < ROWS)
        sights[thread] = thread < task.rows ? ((const u32*)a.visible)[task.token + (task.row + thread) / group] : 0;
    __syncthreads();
    u32 longest = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) longest = max(longest, sights[r]);
    // Only the thread of an output and the thread of a row read and write these.
    float top[ROWS], total[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) top[r] = MINUS_INFINITY, total[r] = 0.0f;

    const u32 count = (longest + PARTITION - 1) / PARTITION;
    const u32 first = a.partial ? blockIdx.z : 0, end = a.partial ? min(blockIdx.z + 1, count) : count;
    for (u32 partition = first; partition < end; partition++) {
        const u32 start = partition * PARTITION, position = start + thread;
        float scores[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) scores[r] = 0.0f;
        if (position < longest) {
            const float* keys = (const float*)pages[position / PAGE_TOKENS] + a.keys + kv_head * block + lane * KEY_VECTOR;
            for (u32 d = 0; d < dim; d += KEY_VECTOR) {
                const float4 key = *(const float4*)(keys + d * PAGE_TOKENS);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float4 query = *(const float4*)(queries + r * dim + d);
                    scores[r] = fmaf(query.x, key.x, scores[r]);
                    scores[r] = fmaf(query.y, key.y, scores[r]);
                    scores[r] = fmaf(query.z, key.z, scores[r]);
                    scores[r] = fmaf(query.w, key.w, scores[r]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float most = warp_max(position < sights[r] ? scores[r] : MINUS_INFINITY);
            if (lane == 0) warps[r][warp] = most;
        }
        __syncthreads();
        if (thread < ROWS) {
            float most = warps[thread][0];
            for (int i = 1; i < ATTENTION_THREADS / 32; i++) most = larger(most, warps[thread][i]);
            maxima[thread] = most;
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float weight = position < sights[r] ? exponential(scores[r] - maxima[r]) : 0.0f;
            weights[r * PARTITION + thread] = weight;
            const float sum = warp_sum(weight);
            if (lane == 0) warps[r][warp] = sum;
        }
        __syncthreads();
        if (thread < ROWS) {
            float sum = warps[thread][0];
            for (int i = 1; i < ATTENTION_THREADS / 32; i++) sum += warps[thread][i];
            sums[thread] = sum;
        }
        // Two warps for each quarter of the partition: each has half of the rows, and its lanes four dimensions each.
        constexpr int MINE = ROWS / 2;
        const u32 quarter = warp / 2, mine = warp % 2 * MINE;
        const u32 from = start + quarter * (PARTITION / SUBPARTS);
        const u32 to = min(from + PARTITION / SUBPARTS, longest);
        for (u32 d = lane * 4; d < dim; d += 32 * 4) {
            float output[MINE][4];
#pragma unroll
            for (int r = 0; r < MINE; r++) output[r][0] = output[r][1] = output[r][2] = output[r][3] = 0.0f;
            for (u32 p = from; p < to; p++) {
                const float* values = (const float*)pages[p / PAGE_TOKENS] + a.values + kv_head * block;
                const float4 value = *(const float4*)(values + p % PAGE_TOKENS * dim + d);
#pragma unroll
                for (int r = 0; r < MINE; r++) {
                    const float weight = weights[(mine + r) * PARTITION + p - start];
                    // What a row does not see counts for nothing, be it no number.
                    if (p < sights[mine + r]) {
                        output[r][0] = fmaf(weight, value.x, output[r][0]);
                        output[r][1] = fmaf(weight, value.y, output[r][1]);
                        output[r][2] = fmaf(weight, value.z, output[r][2]);
                        output[r][3] = fmaf(weight, value.w, output[r][3]);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < MINE; r++) {
                float4 packed;
                packed.x = output[r][0], packed.y = output[r][1], packed.z = output[r][2], packed.w = output[r][3];
                *(float4*)(parts + (quarter * ROWS + mine + r) * dim + d) = packed;
            }
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (start >= sights[r]) continue;
            const float both = larger(top[r], maxima[r]);
            const bool begun = partition > first;
            const float before = begun ? merge_scale(top[r], both) : 0.0f, here = merge_scale(maxima[r], both);
            for (u32 d = thread; d < dim; d += ATTENTION_THREADS) {
                float sum = parts[r * dim + d];
#pragma unroll
                for (int part = 1; part < SUBPARTS; part++) sum += parts[(part * ROWS + r) * dim + d];
                outputs[r * dim + d] = begun ? merge(outputs[r * dim + d], before, sum, here) : sum;
            }
            total[r] = begun ? merge(total[r], before, sums[r], here) : sums[r];
            top[r] = both;
        }
        __syncthreads();
    }

    for (int r = 0; r < ROWS; r++) {
        if (r >= task.rows) break;
        const u32 row = task.row + r, token = task.token + row / group, head = kv_head * group + row % group;
        if (a.partial) {
            if (first * PARTITION >= sights[r]) continue;
            const u64 place = ((u64)token * a.heads + head) * a.partitions + first;
            for (u32 d = thread; d < a.dim; d += ATTENTION_THREADS)
                ((float*)a.partial)[place * dim + d] = outputs[r * dim + d];
            if (thread == 0) {
                ((float*)a.stats)[place * 2] = maxima[r];
                ((float*)a.stats)[place * 2 + 1] = sums[r];
            }
        } else {
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < ROWS; i++) sum = i == r ? total[i] : sum;
            Output* to = (Output*)a.attended + (u64)token * a.attended_stride + head * a.dim;
            for (u32 d = thread; d < a.dim; d += ATTENTION_THREADS) store(to + d, outputs[r * dim + d] / sum);
        }
    }
}

// Merges the partitions of a token's head. Blocks: tokens, heads.
template <typename Output> DEVICE void merge_partitions(const Attention& a) {
    const u32 token = blockIdx.x, head = blockIdx.y;
    const u32 count = (((const u32*)a.visible)[token] + PARTITION - 1) / PARTITION;
    const u64 place = ((u64)token * a.heads + head) * a.partitions;
    const float* stats = (const float*)a.stats + place * 2;
    Output* to = (Output*)a.attended + (u64)token * a.attended_stride + head * a.dim;
    for (u32 d = threadIdx.x; d < a.dim; d += blockDim.x) {
        const float* partial = (const float*)a.partial + place * a.stored_dim + d;
        float top = stats[0], total = stats[1], output = partial[0];
        for (u32 i = 1; i < count; i++) {
            const float both = larger(top, stats[2 * i]);
            const float before = merge_scale(top, both), here = merge_scale(stats[2 * i], both);
            output = merge(output, before, partial[(u64)i * a.stored_dim], here);
            total = merge(total, before, stats[2 * i + 1], here);
            top = both;
        }
        store(to + d, output / total);
    }
}

#define ATTEND(Output, name, ROWS)                                                                           \
    KERNEL(attend_##name##_##ROWS, Attention, ATTENTION_THREADS) { attend<Output, ROWS>(a); }
ATTEND(float, f32, 2)
ATTEND(float, f32, 4)
ATTEND(float, f32, 8)
ATTEND(bf16, bf16, 2)
ATTEND(bf16, bf16, 4)
ATTEND(bf16, bf16, 8)
KERNEL(merge_f32, Attention, ATTENTION_THREADS) { merge_partitions<float>(a); }
KERNEL(merge_bf16, Attention, ATTENTION_THREADS) { merge_partitions<bf16>(a); }
