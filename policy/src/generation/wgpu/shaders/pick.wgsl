// Chooses the token of each row, or says where one lies, from the masses of blocks and the weights within one of them.
// A workgroup does one row, and each of its 256 threads four blocks, then four tokens.

struct Choice {
    token: u32,
    // What is wrong with the row's logits.
    wrong: f32,
    logit: f32,
    top: f32,
    // Σ exp(logit − top).
    raw: f32,
    // Σ exp((logit − top) / temperature).
    total: f32,
    // The part of it before the token, in the order of ids, and the token's own.
    low: f32,
    weight: f32,
}

@group(0) @binding(0) var<storage, read> picks: array<Pick>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> blocks: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> choices: array<Choice>;

// Sums up to and with each thread's four.
var<workgroup> running: array<f32, THREADS>;
var<workgroup> first: atomic<u32>;
var<workgroup> last: atomic<u32>;
var<workgroup> found_before: f32;
var<workgroup> found_weight: f32;

const NONE: u32 = 0xffffffffu;

struct Found {
    index: u32,
    before: f32,
    weight: f32,
}

// Leaves the running sums of all threads' fours in `running`.
fn accumulate(four: vec4<f32>, index: u32) {
    running[index] = four.x + four.y + four.z + four.w;
    workgroupBarrier();
    for (var distance = 1u; distance < THREADS; distance *= 2u) {
        var sum = running[index];
        if index >= distance {
            sum += running[index - distance];
        }
        workgroupBarrier();
        running[index] = sum;
        workgroupBarrier();
    }
}

// The first of all fours whose running sum exceeds `target`, or the last with any weight where rounding leaves none; or number `wanted`
// where it is not NONE. `accumulate` comes before.
fn locate(four: vec4<f32>, bound: f32, wanted: u32, index: u32) -> Found {
    if index == 0u {
        atomicStore(&first, NONE);
        atomicStore(&last, 0u);
        found_before = 0.0;
        found_weight = 0.0;
    }
    workgroupBarrier();
    var start = 0.0;
    if index > 0u {
        start = running[index - 1u];
    }
    var sum = start;
    for (var i = 0u; i < 4u; i++) {
        if four[i] > 0.0 {
            atomicMax(&last, 4u * index + i);
            if sum + four[i] > bound {
                atomicMin(&first, 4u * index + i);
            }
        }
        sum += four[i];
    }
    workgroupBarrier();
    var found = wanted;
    if found == NONE {
        found = atomicLoad(&first);
    }
    if found == NONE {
        found = atomicLoad(&last);
    }
    if found / 4u == index {
        sum = start;
        for (var i = 0u; i < found % 4u; i++) {
            sum += four[i];
        }
        found_before = sum;
        found_weight = four[found % 4u];
    }
    workgroupBarrier();
    let result = Found(found, found_before, found_weight);
    workgroupBarrier();
    return result;
}

@compute @workgroup_size(THREADS)
fn main(thread: Thread) {
    let row = thread.group.x;
    let index = thread.index;
    let pick = picks[row];
    let likeliest = pick.wanted == LIKELIEST;
    var wanted_block = NONE;
    var wanted_token = NONE;
    if pick.wanted == PLACE {
        wanted_block = pick.token / BLOCK;
        wanted_token = pick.token % BLOCK;
    }

    var top = IMPOSSIBLE;
    var wrong = 0.0;
    for (var i = 4u * index; i < min(4u * index + 4u, BLOCKS); i++) {
        let block = blocks[row * BLOCKS + i];
        top = max(top, block.x);
        wrong = max(wrong, block.w);
    }
    top = max_of_all(top, thread);
    wrong = max_of_all(wrong, thread);

    // Blocks by their mass, of which the likeliest token has all where it is wanted.
    var masses = vec4(0.0);
    var raw = 0.0;
    for (var i = 0u; i < 4u; i++) {
        if 4u * index + i < BLOCKS {
            let block = blocks[row * BLOCKS + 4u * index + i];
            raw = fma(block.y, weight(block.x - top), raw);
            let mass = block.z * weight((block.x - top) * pick.sharpness);
            masses[i] = select(mass, select(0.0, 1.0, block.x == top), likeliest);
        }
    }
    raw = sum_of_all(raw, thread);
    accumulate(masses, index);
    let total = running[THREADS - 1u];
    let bound = select(pick.u * total, 0.0, likeliest);
    let block = locate(masses, bound, wanted_block, index);

    let block_top = blocks[row * BLOCKS + block.index].x;
    let start = block.index * BLOCK + 4u * index;
    var four = vec4(0.0);
    for (var i = 0u; i < 4u; i++) {
        if start + i < VOCAB {
            let logit = logits[row * VOCAB + start + i];
            let drawn = weight((logit - block_top) * pick.sharpness);
            four[i] = select(drawn, select(0.0, 1.0, logit == top), likeliest);
        }
    }
    accumulate(four, index);
    // Added in another order, they make another sum in its last bits: they are brought to the block's mass.
    let sum = running[THREADS - 1u];
    let scale = select(0.0, block.weight / sum, sum > 0.0);
    let within = select(0.0, (bound - block.before) / scale, scale > 0.0);
    let token = locate(four, within, wanted_token, index);

    if index == 0u {
        let id = block.index * BLOCK + token.index;
        let logit = logits[row * VOCAB + id];
        let low = fma(token.before, scale, block.before);
        choices[row] = Choice(id, wrong, logit, top, raw, total, low, token.weight * scale);
    }
}
