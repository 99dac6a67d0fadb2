// Many columns: a workgroup makes a tile of 64 rows and 64 columns, a thread 8 × 4 outputs of it. 16 numbers of every row and column lie
// in workgroup memory at a time.

const TILE: u32 = 64u;
const DEPTH: u32 = 16u;
const HIGH: u32 = 8u;
const WIDE: u32 = 4u;

// `[number][row]` and `[number][column]`.
var<workgroup> left: array<f32, DEPTH * TILE>;
var<workgroup> right: array<f32, DEPTH * TILE>;

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let first = group.x * TILE;
    let columns = group.y * TILE;
    let eights = shard.width / 8u;
    // Each thread fetches eight numbers of a row and of a column.
    let fetched = thread % TILE;
    let half = thread / TILE;
    let row = min(first + fetched, shard.rows - 1u) * eights;
    let column = min(columns + fetched, call.columns - 1u) * eights;
    let high = thread / 16u * HIGH;
    let wide = thread % 16u * WIDE;
    var totals: array<f32, HIGH * WIDE>;
    var spans: array<f32, HIGH * WIDE>;
    for (var start = 0u; start < shard.width; start += DEPTH) {
        let at = start / 8u + half;
        let w = eight(row + at);
        let low = x[2u * (column + at)];
        let high_x = x[2u * (column + at) + 1u];
        let k = half * 8u * TILE + fetched;
        for (var i = 0u; i < 4u; i++) {
            left[k + i * TILE] = w.low[i];
            left[k + (i + 4u) * TILE] = w.high[i];
            right[k + i * TILE] = low[i];
            right[k + (i + 4u) * TILE] = high_x[i];
        }
        workgroupBarrier();
        for (var part = 0u; part < 2u; part++) {
            for (var i = part * 8u; i < part * 8u + 8u; i++) {
                var a: array<f32, HIGH>;
                var b: array<f32, WIDE>;
                for (var r = 0u; r < HIGH; r++) {
                    a[r] = left[i * TILE + high + r];
                }
                for (var c = 0u; c < WIDE; c++) {
                    b[c] = right[i * TILE + wide + c];
                }
                for (var r = 0u; r < HIGH; r++) {
                    for (var c = 0u; c < WIDE; c++) {
                        spans[r * WIDE + c] = fma(a[r], b[c], spans[r * WIDE + c]);
                    }
                }
            }
            // Spans are whole multiples of eight numbers.
            if (start + part * 8u + 8u) % shard.span == 0u {
                for (var i = 0u; i < HIGH * WIDE; i++) {
                    totals[i] += spans[i];
                    spans[i] = 0.0;
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < HIGH; r += 2u) {
        for (var c = 0u; c < WIDE; c++) {
            finish(first + high + r, columns + wide + c, totals[r * WIDE + c], totals[(r + 1u) * WIDE + c]);
        }
    }
}
