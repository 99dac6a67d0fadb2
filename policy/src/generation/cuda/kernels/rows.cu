// What is done to rows of activations between the products: embedding, norms, SwiGLU.

struct Embed {
    u64 table, ids, x;
    u32 width, stride;
};

// x[token] = table[ids[token]], widened. A block a token.
template <typename Weight> DEVICE void embed(const Embed& a) {
    const u64 row = ((const u32*)a.ids)[blockIdx.x];
    const Weight* from = (const Weight*)a.table + row * a.stride;
    float* to = (float*)a.x + (u64)blockIdx.x * a.stride;
    for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) to[i] = widen(from[i]);
}

KERNEL(embed_f32, Embed, 256) { embed<float>(a); }
KERNEL(embed_bf16, Embed, 256) { embed<bf16>(a); }
KERNEL(embed_f16, Embed, 256) { embed<f16>(a); }

struct Norm {
    u64 x, weight, y;
    // Which rows of x are wanted, one a block; 0 for all in order.
    u64 rows;
    u32 width, x_stride, y_stride;
    float epsilon;
};

#define NORM_THREADS 256

// y = x / rms(x) · weight, with zeros behind. The order of the sum is that of 256 threads whatever else is computed.
template <typename Output> DEVICE void norm(const Norm& a) {
    __shared__ float parts[NORM_THREADS / 32];
    const u32 row = a.rows ? ((const u32*)a.rows)[blockIdx.x] : blockIdx.x;
    const float* x = (const float*)a.x + (u64)row * a.x_stride;
    float sum = 0.0f;
    for (u32 i = threadIdx.x; i < a.width; i += NORM_THREADS) sum = fmaf(x[i], x[i], sum);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < NORM_THREADS / 32; i++) sum += parts[i];
    const float scale = 1.0f / sqrtf(sum / (float)a.width + a.epsilon);
    const float* weight = (const float*)a.weight;
    Output* y = (Output*)a.y + (u64)blockIdx.x * a.y_stride;
    for (u32 i = threadIdx.x; i < a.y_stride; i += NORM_THREADS)
        store(y + i, i < a.width ? x[i] * scale * weight[i] : 0.0f);
}

KERNEL(norm_f32, Norm, NORM_THREADS) { norm<float>(a); }
KERNEL(norm_bf16, Norm, NORM_THREADS) { norm<bf16>(a); }

struct SwiGlu {
    u64 gate_up, y;
    u32 inner, stride;
};

// y = silu(gate) · up, with zeros behind. Rows of gates are followed by their ups. Blocks: parts of a row, tokens.
template <typename Output> DEVICE void swiglu(const SwiGlu& a) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.stride) return;
    const float* row = (const float*)a.gate_up + (u64)blockIdx.y * 2 * a.inner;
    float value = 0.0f;
    if (i < a.inner) {
        const float gate = row[i];
        value = gate * (1.0f / (1.0f + exponential(-gate))) * row[a.inner + i];
    }
    store((Output*)a.y + (u64)blockIdx.y * a.stride + i, value);
}

KERNEL(swiglu_f32, SwiGlu, 256) { swiglu<float>(a); }
KERNEL(swiglu_bf16, SwiGlu, 256) { swiglu<bf16>(a); }
