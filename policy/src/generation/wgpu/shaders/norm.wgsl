// RMS norm of chosen rows. A workgroup does one.

@group(0) @binding(0) var<storage, read> rows: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> normed: array<f32>;

@compute @workgroup_size(THREADS)
fn main(thread: Thread) {
    let start = rows[thread.group.x] * STRIDE;
    var squares = 0.0;
    for (var i = thread.index; i < HIDDEN; i += THREADS) {
        squares = fma(x[start + i], x[start + i], squares);
    }
    let scale = 1.0 / sqrt(sum_of_all(squares, thread) / f32(HIDDEN) + EPS);
    for (var i = thread.index; i < HIDDEN; i += THREADS) {
        normed[thread.group.x * STRIDE + i] = x[start + i] * scale * weight[i];
    }
}
