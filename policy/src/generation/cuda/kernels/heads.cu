// Query, key and value heads of one layer: normalised where the family does, rotated to their positions, keys and values put into pages.

struct Heads {
    // Rows of queries, keys and values, one a token.
    u64 qkv;
    // Norms of query and key heads, or 0.
    u64 q_norm, k_norm;
    // Of every position, [position][head_dim / 2].
    u64 cos, sin;
    // How many tokens each token sees, itself included; where its sequence's pages begin among `pages`; addresses of pages.
    u64 visible, first_page, pages;
    // Where the attention's outputs go: what is behind them is set to zero here.
    u64 attended;
    u32 heads, kv_heads, dim, stored_dim;
    // Where in a page this layer's keys and values begin, in numbers.
    u32 keys, values;
    u32 attended_width, attended_stride;
    float epsilon, scale;
};

#define HEADS_THREADS 128

#define KEY_VECTOR 4

// Where dimension d of a token's key lies in its head's block: [d / KEY_VECTOR][token][d % KEY_VECTOR], so that 32 lanes with a token each
// read 16 bytes that follow each other.
DEVICE u32 key_place(u32 d, u32 slot) { return (d / KEY_VECTOR * PAGE_TOKENS + slot) * KEY_VECTOR + d % KEY_VECTOR; }

template <typename Output> DEVICE void place_heads(const Heads& a) {
    const u32 token = blockIdx.x, lane = threadIdx.x % 32, half = a.dim / 2;
    const u32 position = ((const u32*)a.visible)[token] - 1, slot = position % PAGE_TOKENS;
    const u32 first = ((const u32*)a.first_page)[token];
    float* page = (float*)((const u64*)a.pages)[first + position / PAGE_TOKENS];
    const float* cos = (const float*)a.cos + (u64)position * half;
    const float* sin = (const float*)a.sin + (u64)position * half;
    const u32 width = (a.heads + 2 * a.kv_heads) * a.dim, block = a.stored_dim * PAGE_TOKENS;
    float* row = (float*)a.qkv + (u64)token * width;
    for (u32 i = a.attended_width + threadIdx.x; i < a.attended_stride; i += HEADS_THREADS)
        store((Output*)a.attended + (u64)token * a.attended_stride + i, 0.0f);
    for (u32 head = threadIdx.x / 32; head < a.heads + 2 * a.kv_heads; head += HEADS_THREADS / 32) {
        float* numbers = row + head * a.dim;
        if (head >= a.heads + a.kv_heads) {
            float* values = page + a.values + (head - a.heads - a.kv_heads) * block + slot * a.stored_dim;
            for (u32 i = lane; i < a.stored_dim; i += 32) values[i] = i < a.dim ? numbers[i] : 0.0f;
            continue;
        }
        const bool query = head < a.heads;
        const float* weight = (const float*)(query ? a.q_norm : a.k_norm);
        float norm = 1.0f;
        if (weight) {
            float sum = 0.0f;
            for (u32 i = lane; i < a.dim; i += 32) sum = fmaf(numbers[i], numbers[i], sum);
            norm = 1.0f / sqrtf(warp_sum(sum) / (float)a.dim + a.epsilon);
        }
        float* keys = page + a.keys + (query ? 0 : head - a.heads) * block;
        for (u32 i = lane; i < half; i += 32) {
            float x = numbers[i], y = numbers[i + half];
            if (weight) x = x * norm * weight[i], y = y * norm * weight[i + half];
            const float c = cos[i], s = sin[i];
            const float rotated_x = x * c - y * s, rotated_y = y * c + x * s;
            if (query) {
                numbers[i] = rotated_x * a.scale, numbers[i + half] = rotated_y * a.scale;
            } else {
                keys[key_place(i, slot)] = rotated_x;
                keys[key_place(i + half, slot)] = rotated_y;
            }
        }
        if (!query) {
            for (u32 i = a.dim + lane; i < a.stored_dim; i += 32) keys[key_place(i, slot)] = 0.0f;
        }
    }
}

KERNEL(heads_f32, Heads, HEADS_THREADS) { place_heads<float>(a); }
KERNEL(heads_bf16, Heads, HEADS_THREADS) { place_heads<bf16>(a); }
