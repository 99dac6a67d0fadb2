// Drawing by the rule of `sampler.rs`, and telling where a token lies.
//
// A weight is exp((logit - top) / temperature) in f32; its multiple of 2^-43 is an integer, and all sums are sums of integers: they are the
// same in any order, and shares are compared exactly. A row has at most 2^20 tokens, so 64 bits hold every sum. Logarithms and divisions
// are left to the host, which gets the sums.

// A row's order. As `draw.rs` has it.
struct Pick {
    // The share of the mass before the token that is drawn, times 2^53. Unused for a claim.
    u64 u;
    // What differences of logits are multiplied with.
    float factor;
    // 1 is off.
    float top_p;
    // 0 is off.
    u32 top_k;
    // The claimed token, or NO_CLAIM.
    u32 token;
    // Only the likeliest token stays.
    u32 greedy;
    u32 unused;
};

struct Outcome {
    // Sums of weights: before the token in the order of ids, of the token, of all that stay, of all at temperature 1, enough for top-p,
    // before the token in the order of falling logits.
    u64 before, mass, total, raw_total, enough, ahead;
    float top, logit, floor, ranked_floor;
    u32 status, token, last, ranked_last, has_cut, has_ranked;
};

struct Draw {
    // Rows of logits, [rows][vocab].
    u64 logits;
    // A `Pick` and an `Outcome` for each row.
    u64 picks, outcomes;
    // Of each block of DRAW_BLOCK ids, [rows][blocks]: the largest logit, and the masses {raw, drawn}.
    u64 tops, masses;
    u32 vocab, blocks;
};

#define DRAW_BLOCK 1024
#define DRAW_THREADS 256
#define DRAW_EACH 4
#define MOST_BLOCKS 1024
#define NO_CLAIM 0xffffffffu
#define ONE 8796093022208.0f

#define FINE 0
#define NOT_A_NUMBER 1
#define INFINITE 2
#define IMPOSSIBLE 3

// An integer that grows with the logit; -0 is 0.
DEVICE u32 key_of(float logit) {
    const u32 bits = __float_as_uint(logit + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

#define MINUS_INFINITY_KEY 0x007fffffu

// The weight of a logit in units of 2^-43. What rounding takes from the product of difference and factor is given back.
DEVICE u64 mass_of(float logit, float top, float factor) {
    const float difference = logit - top;
    const float shift = difference - logit;
    const float lost = (logit - (difference - shift)) - (top + shift);
    const float depth = difference * factor;
    if (!(depth >= -87.0f)) return 0;
    const float rest = fmaf(difference, factor, -depth) + lost * factor;
    const float weight = exponential(depth);
    return (u64)(fmaf(weight, rest, weight) * ONE);
}

DEVICE float block_max(float x, float* parts) {
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (u32 i = 1; i < blockDim.x / 32; i++) x = larger(x, parts[i]);
    return x;
}

DEVICE u64 block_sum(u64 x, u64* parts) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (u32 i = 1; i < blockDim.x / 32; i++) x += parts[i];
    return x;
}

// Σ over the threads before this one.
DEVICE u64 block_sum_before(u64 x, u64* parts) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 sum = x;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const u64 other = __shfl_up_sync(ALL_LANES, sum, offset);
        if (lane >= offset) sum += other;
    }
    __syncthreads();
    if (lane == 31) parts[warp] = sum;
    __syncthreads();
    sum -= x;
    for (u32 i = 0; i < warp; i++) sum += parts[i];
    return sum;
}

// The largest logit of a row; NaN if there is one in it.
DEVICE float row_top(const Draw& a, u32 row, float* parts, u32* broken) {
    const float* tops = (const float*)a.tops + (u64)row * a.blocks;
    float top = MINUS_INFINITY;
    if (threadIdx.x == 0) *broken = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < a.blocks; i += blockDim.x) {
        top = larger(top, tops[i]);
        if (tops[i] != tops[i]) *broken = 1;
    }
    return block_max(top, parts);
}

// Whether a token stays.
DEVICE bool keeps(const Outcome& border, u32 id, float logit) {
    return !border.has_cut || logit > border.floor || (logit == border.floor && id <= border.last);
}

// The largest logit of each block; NaN where a logit is. Blocks: blocks of ids, rows.
KERNEL(draw_tops, Draw, DRAW_THREADS) {
    __shared__ float parts[DRAW_THREADS / 32];
    __shared__ u32 broken;
    if (threadIdx.x == 0) broken = 0;
    __syncthreads();
    const float* logits = (const float*)a.logits + (u64)blockIdx.y * a.vocab;
    float top = MINUS_INFINITY;
    for (u32 i = 0; i < DRAW_EACH; i++) {
        const u32 id = blockIdx.x * DRAW_BLOCK + i * DRAW_THREADS + threadIdx.x;
        if (id >= a.vocab) break;
        const float logit = logits[id];
        if (logit != logit) broken = 1;
        top = larger(logit, top);
    }
    top = block_max(top, parts);
    if (threadIdx.x == 0)
        ((float*)a.tops)[(u64)blockIdx.y * a.blocks + blockIdx.x] = broken ? __uint_as_float(0x7fc00000u) : top;
}

// What a search over a row sees: the tokens whose key is at least `least`, how many, and their mass.
struct Sum {
    u64 tokens, mass;
};

DEVICE Sum at_least(const float* logits, u32 vocab, u32 least, float top, float factor, u64* parts) {
    Sum sum = {0, 0};
    for (u32 id = threadIdx.x; id < vocab; id += blockDim.x) {
        if (key_of(logits[id]) >= least) sum.tokens++, sum.mass += mass_of(logits[id], top, factor);
    }
    sum.tokens = block_sum(sum.tokens, parts);
    sum.mass = block_sum(sum.mass, parts);
    return sum;
}

// The largest key at which `least` tokens, or with `by_mass` so much mass, have that key or a larger one. There is one.
DEVICE u32 find_key(const float* logits, u32 vocab, bool by_mass, u64 least, float top, float factor, u64* parts) {
    u32 low = MINUS_INFINITY_KEY + 1, high = key_of(top);
    while (low < high) {
        const u32 middle = high - (high - low) / 2;
        const Sum sum = at_least(logits, vocab, middle, top, factor, parts);
        if ((by_mass ? sum.mass : sum.tokens) >= least) low = middle;
        else high = middle - 1;
    }
    return low;
}

// The id of the `which`-th (from 1) token with this key.
DEVICE u32 find_equal(const float* logits, u32 vocab, u32 key, u64 which, u64* parts, u32* found) {
    u64 before = 0;
    for (u32 start = 0; start < vocab; start += blockDim.x) {
        const u32 id = start + threadIdx.x;
        const u64 equal = id < vocab && key_of(logits[id]) == key;
        const u64 mine = before + block_sum_before(equal, parts);
        if (equal && mine + 1 == which) *found = id;
        before += block_sum(equal, parts);
        if (before >= which) break;
    }
    __syncthreads();
    const u32 id = *found;
    __syncthreads();
    return id;
}

DEVICE float logit_of(u32 key) {
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

#define BORDER_THREADS 1024

// What top-k and top-p leave of each row, and with a claim how much is likelier than the token. A block a row.
KERNEL(draw_borders, Draw, BORDER_THREADS) {
    __shared__ u64 parts[BORDER_THREADS / 32];
    __shared__ u32 found, broken;
    const u32 row = blockIdx.x;
    const Pick pick = ((const Pick*)a.picks)[row];
    Outcome& outcome = ((Outcome*)a.outcomes)[row];
    const float* logits = (const float*)a.logits + (u64)row * a.vocab;
    const float top = row_top(a, row, (float*)parts, &broken);
    const bool ranks = pick.greedy || (pick.top_k > 0 && pick.top_k < a.vocab), cuts = pick.top_p < 1.0f;
    if (broken || !(top < __uint_as_float(0x7f800000u)) || top == MINUS_INFINITY || !(ranks || cuts)) {
        if (threadIdx.x == 0) outcome.has_cut = outcome.has_ranked = 0;
        return;
    }
    const float factor = pick.factor;
    const Sum all = at_least(logits, a.vocab, MINUS_INFINITY_KEY + 1, top, factor, parts);
    u64 mass = all.mass, enough = 0;
    u32 key = 0, last = 0, ranked_key = 0, ranked_last = 0;
    const u64 rank = pick.greedy ? 1 : pick.top_k;
    const bool ranked = ranks && all.tokens >= rank;
    if (ranked) {
        ranked_key = find_key(logits, a.vocab, false, rank, top, factor, parts);
        const Sum above = at_least(logits, a.vocab, ranked_key + 1, top, factor, parts);
        ranked_last = find_equal(logits, a.vocab, ranked_key, rank - above.tokens, parts, &found);
        mass = above.mass + (rank - above.tokens) * mass_of(logits[ranked_last], top, factor);
        key = ranked_key, last = ranked_last;
    }
    const bool nucleus = cuts && !pick.greedy;
    if (nucleus) {
        enough = (u64)ceil((double)pick.top_p * (double)mass);
        key = find_key(logits, a.vocab, true, enough, top, factor, parts);
        const Sum above = at_least(logits, a.vocab, key + 1, top, factor, parts);
        const u64 each = mass_of(logit_of(key), top, factor);
        const u64 equals = each > 0 ? (enough - above.mass + each - 1) / each : 1;
        last = find_equal(logits, a.vocab, key, equals, parts, &found);
    }
    u64 ahead = 0;
    if (pick.token != NO_CLAIM) {
        const float logit = logits[pick.token];
        for (u32 id = threadIdx.x; id < a.vocab; id += blockDim.x) {
            if (logits[id] > logit || (logits[id] == logit && id < pick.token)) ahead += mass_of(logits[id], top, factor);
        }
        ahead = block_sum(ahead, parts);
    }
    if (threadIdx.x == 0) {
        outcome.has_cut = ranked || nucleus, outcome.has_ranked = ranked;
        outcome.floor = logit_of(key), outcome.last = last;
        outcome.ranked_floor = logit_of(ranked_key), outcome.ranked_last = ranked_last;
        outcome.enough = nucleus ? enough : 0, outcome.ahead = ahead;
    }
}

// The masses of each block. Blocks: blocks of ids, rows.
KERNEL(draw_masses, Draw, DRAW_THREADS) {
    __shared__ u64 parts[DRAW_THREADS / 32];
    __shared__ u32 broken;
    const u32 row = blockIdx.y;
    const float* logits = (const float*)a.logits + (u64)row * a.vocab;
    const float factor = ((const Pick*)a.picks)[row].factor, top = row_top(a, row, (float*)parts, &broken);
    const Outcome& border = ((const Outcome*)a.outcomes)[row];
    u64 raw = 0, drawn = 0;
    for (u32 i = 0; i < DRAW_EACH; i++) {
        const u32 id = blockIdx.x * DRAW_BLOCK + i * DRAW_THREADS + threadIdx.x;
        if (id >= a.vocab) break;
        const u64 mass = mass_of(logits[id], top, 1.0f);
        raw += mass;
        if (keeps(border, id, logits[id])) drawn += factor == 1.0f ? mass : mass_of(logits[id], top, factor);
    }
    raw = block_sum(raw, parts);
    drawn = block_sum(drawn, parts);
    if (threadIdx.x == 0) {
        u64* masses = (u64*)a.masses + ((u64)row * a.blocks + blockIdx.x) * 2;
        masses[0] = raw, masses[1] = drawn;
    }
}

// floor(share · total / 2^53).
DEVICE u64 part_of(u64 share, u64 total) {
    const u64 high = __umul64hi(share, total), low = share * total;
    return (high << 11) | (low >> 53);
}

// The token of each row, and its sums. A block a row.
KERNEL(draw_tokens, Draw, DRAW_THREADS) {
    __shared__ u64 parts[DRAW_THREADS / 32];
    __shared__ u64 before_block;
    __shared__ u32 broken, chosen;
    const u32 row = blockIdx.x;
    const Pick pick = ((const Pick*)a.picks)[row];
    Outcome& outcome = ((Outcome*)a.outcomes)[row];
    const float* logits = (const float*)a.logits + (u64)row * a.vocab;
    const float top = row_top(a, row, (float*)parts, &broken);
    const u64* masses = (const u64*)a.masses + (u64)row * a.blocks * 2;
    u64 raw = 0, drawn = 0;
    const u32 each = (a.blocks + DRAW_THREADS - 1) / DRAW_THREADS, first = threadIdx.x * each;
    for (u32 i = first; i < min(first + each, a.blocks); i++) raw += masses[2 * i], drawn += masses[2 * i + 1];
    const u64 raw_total = block_sum(raw, parts), total = block_sum(drawn, parts);
    u64 before = block_sum_before(drawn, parts);
    u32 status = FINE;
    if (top == MINUS_INFINITY) status = IMPOSSIBLE;
    if (broken) status = NOT_A_NUMBER;
    if (top == __uint_as_float(0x7f800000u)) status = INFINITE;
    if (status != FINE) {
        if (threadIdx.x == 0) outcome.status = status;
        return;
    }
    const bool claim = pick.token != NO_CLAIM;
    const u64 target = part_of(pick.u, total);
    // The block: of all that end beyond the target, only one begins at or before it.
    for (u32 i = first; i < min(first + each, a.blocks); i++) {
        const u64 mass = masses[2 * i + 1];
        const bool here = claim ? i == pick.token / DRAW_BLOCK : before <= target && target < before + mass;
        if (here) chosen = i, before_block = before;
        before += mass;
    }
    __syncthreads();
    const u32 block = chosen, start = block * DRAW_BLOCK + threadIdx.x * DRAW_EACH;
    u64 mine[DRAW_EACH], sum = 0;
#pragma unroll
    for (u32 i = 0; i < DRAW_EACH; i++) {
        const u32 id = start + i;
        mine[i] = id < a.vocab && keeps(outcome, id, logits[id]) ? mass_of(logits[id], top, pick.factor) : 0;
        sum += mine[i];
    }
    before = before_block + block_sum_before(sum, parts);
#pragma unroll
    for (u32 i = 0; i < DRAW_EACH; i++) {
        const u32 id = start + i;
        const bool here = claim ? id == pick.token : before <= target && target < before + mine[i];
        if (here) {
            outcome.before = before, outcome.mass = mine[i], outcome.token = id, outcome.logit = logits[id];
            outcome.total = total, outcome.raw_total = raw_total, outcome.top = top, outcome.status = FINE;
        }
        before += mine[i];
    }
}
