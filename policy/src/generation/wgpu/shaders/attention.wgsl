// Attention with a running softmax. A workgroup does up to ROWS rows of one key-value head; a row is one query head of one token, and
// all rows of a workgroup are of one sequence. Positions are visited in blocks of THREADS, always from the first on and in the same
// order for each row: what other rows there are changes nothing, since blocks that a row does not see leave it as it is.

const FOURS: u32 = PADDED / 4u;
const GROUP: u32 = QUERIES / KV_HEADS;
// Threads that share the statistics of a row, and the positions that each of them looks at: the same for any number of rows.
const SHARE: u32 = 8u;
const EACH: u32 = THREADS / SHARE;
// Fours of outputs of a thread.
const OUTPUTS: u32 = (ROWS * FOURS + THREADS - 1u) / THREADS;
const NOTHING: f32 = -3.4028234e38;

struct Tile {
    // The first token that this call feeds to the sequence.
    token: u32,
    // The first row, counted from that token's first query head on.
    row: u32,
    rows: u32,
    unused: u32,
}

@group(0) @binding(0) var<storage, read> tokens: array<Token>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read> tiles: array<Tile>;
@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> pages: array<vec4<f32>>;
// `[token][STRIDE]`.
@group(0) @binding(5) var<storage, read_write> attended: array<f32>;

var<workgroup> query: array<vec4<f32>, ROWS * FOURS>;
// Scores of a block, then their weights: `[row][position]`.
var<workgroup> weights: array<f32, ROWS * THREADS>;
var<workgroup> shares: array<f32, THREADS>;
// What a row's sums so far are multiplied with, the sum of its weights, and its largest score.
var<workgroup> scales: array<f32, ROWS>;
var<workgroup> sums: array<f32, ROWS>;
var<workgroup> tops: array<f32, ROWS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let tile = tiles[group.x];
    let kv_head = group.y;
    let before = tokens[tile.token].position;
    let start = tokens[tile.token].table;
    for (var i = thread; i < ROWS * FOURS; i += THREADS) {
        let row = tile.row + min(i / FOURS, tile.rows - 1u);
        let head = kv_head * GROUP + row % GROUP;
        query[i] = queries[((tile.token + row / GROUP) * QUERIES + head) * FOURS + i % FOURS];
    }
    if thread < ROWS {
        sums[thread] = 0.0;
        tops[thread] = NOTHING;
    }
    var outputs: array<vec4<f32>, OUTPUTS>;
    workgroupBarrier();
    // Positions that the last row sees.
    let visible = before + (tile.row + tile.rows - 1u) / GROUP + 1u;
    for (var block = 0u; block < visible; block += THREADS) {
        // Each thread: the scores of one position.
        let position = min(block + thread, visible - 1u);
        let keys = block_of(table[start + position / PAGE], 0u, kv_head) / 4u + position % PAGE;
        var scores: array<f32, ROWS>;
        for (var d = 0u; d < FOURS; d++) {
            let key = pages[keys + d * PAGE];
            for (var r = 0u; r < ROWS; r++) {
                let q = query[r * FOURS + d];
                scores[r] = fma(q.w, key.w, fma(q.z, key.z, fma(q.y, key.y, fma(q.x, key.x, scores[r]))));
            }
        }
        for (var r = 0u; r < ROWS; r++) {
            let sees = block + thread <= before + (tile.row + r) / GROUP;
            weights[r * THREADS + thread] = select(NOTHING, scores[r] * SCALE, sees);
        }
        workgroupBarrier();
        // Each thread: a share of one row.
        let counts = thread < ROWS * SHARE;
        let row = min(thread / SHARE, ROWS - 1u);
        let begin = row * THREADS + thread % SHARE * EACH;
        var top = NOTHING;
        for (var i = begin; i < begin + EACH; i++) {
            top = max(top, weights[i]);
        }
        shares[thread] = top;
        workgroupBarrier();
        top = tops[row];
        for (var i = row * SHARE; i < (row + 1u) * SHARE; i++) {
            top = max(top, shares[i]);
        }
        workgroupBarrier();
        if counts {
            var sum = 0.0;
            for (var i = begin; i < begin + EACH; i++) {
                let score = weights[i];
                let weight = select(exponential(score - top), 0.0, score == NOTHING);
                weights[i] = weight;
                sum += weight;
            }
            shares[thread] = sum;
        }
        workgroupBarrier();
        if counts && thread % SHARE == 0u {
            var sum = 0.0;
            for (var i = row * SHARE; i < (row + 1u) * SHARE; i++) {
                sum += shares[i];
            }
            let old = tops[row];
            let scale = select(exponential(old - top), 1.0, old == top);
            sums[row] = fma(sums[row], scale, sum);
            scales[row] = scale;
            tops[row] = top;
        }
        workgroupBarrier();
        // Each thread: some fours of dimensions of some rows.
        let positions = min(THREADS, visible - block);
        for (var i = 0u; i < OUTPUTS; i++) {
            let output = min(thread + i * THREADS, ROWS * FOURS - 1u);
            let r = output / FOURS;
            var sum = outputs[i] * scales[r];
            for (var p = 0u; p < positions; p++) {
                let at = block + p;
                let values = block_of(table[start + at / PAGE], 1u, kv_head) / 4u + at % PAGE * FOURS;
                sum = fma(vec4(weights[r * THREADS + p]), pages[values + output % FOURS], sum);
            }
            outputs[i] = sum;
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < OUTPUTS; i++) {
        let output = thread + i * THREADS;
        let r = output / FOURS;
        if r < tile.rows {
            let row = tile.row + r;
            let mean = outputs[i] / sums[r];
            let to = (tile.token + row / GROUP) * STRIDE + (kv_head * GROUP + row % GROUP) * HEAD;
            for (var d = 0u; d < 4u; d++) {
                let dimension = output % FOURS * 4u + d;
                if dimension < HEAD {
                    attended[to + dimension] = mean[d];
                }
            }
        }
    }
}
