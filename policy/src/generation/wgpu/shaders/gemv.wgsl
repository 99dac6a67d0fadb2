// Few columns: 16 threads share a row, one span each, and use each weight for COLUMNS columns at once.

const LANES: u32 = 16u;
const ROWS: u32 = THREADS / LANES * ROWS_EACH;

// The sums of spans, `[row][column][span]`, spans of neighbouring outputs shifted against each other: no two threads use one bank.
var<workgroup> sums: array<f32, ROWS * COLUMNS * LANES>;

fn place(output: u32, lane: u32) -> u32 {
    return output * LANES + (lane ^ (output % LANES));
}

fn chain(sum: f32, w: Eight, low: vec4<f32>, high: vec4<f32>) -> f32 {
    var s = fma(w.low.x, low.x, sum);
    s = fma(w.low.y, low.y, s);
    s = fma(w.low.z, low.z, s);
    s = fma(w.low.w, low.w, s);
    s = fma(w.high.x, high.x, s);
    s = fma(w.high.y, high.y, s);
    s = fma(w.high.z, high.z, s);
    return fma(w.high.w, high.w, s);
}

fn total(output: u32) -> f32 {
    var sum = 0.0;
    for (var lane = 0u; lane < LANES; lane++) {
        sum += sums[place(output, lane)];
    }
    return sum;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let lane = thread % LANES;
    let local = thread / LANES * ROWS_EACH;
    let first = group.x * ROWS;
    let columns = group.y * COLUMNS;
    let eights = shard.width / 8u;
    var spans: array<f32, ROWS_EACH * COLUMNS>;
    for (var at = lane * (shard.span / 8u); at < (lane + 1u) * (shard.span / 8u); at++) {
        var numbers: array<Eight, ROWS_EACH>;
        for (var r = 0u; r < ROWS_EACH; r++) {
            // Beyond the last row it is computed again, and not written.
            numbers[r] = eight(min(first + local + r, shard.rows - 1u) * eights + at);
        }
        for (var c = 0u; c < COLUMNS; c++) {
            let start = 2u * (min(columns + c, call.columns - 1u) * eights + at);
            let low = x[start];
            let high = x[start + 1u];
            for (var r = 0u; r < ROWS_EACH; r++) {
                spans[r * COLUMNS + c] = chain(spans[r * COLUMNS + c], numbers[r], low, high);
            }
        }
    }
    for (var i = 0u; i < ROWS_EACH * COLUMNS; i++) {
        sums[place(local * COLUMNS + i, lane)] = spans[i];
    }
    workgroupBarrier();
    for (var i = thread; i < ROWS / 2u * COLUMNS; i += THREADS) {
        let row = i / COLUMNS * 2u;
        let column = i % COLUMNS;
        let output = row * COLUMNS + column;
        finish(first + row, columns + column, total(output), total(output + COLUMNS));
    }
}
