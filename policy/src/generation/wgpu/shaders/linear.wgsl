// What all products of a matrix with columns share. An output is the sum of 16 spans of its row, in their order, and a span is one chain
// of fma from its first number to its last. So it does not depend on how many columns there are, or on which kernel computes it.

// What is done with products: UPDATE is one of these.
const SET: u32 = 0u;
const ADD: u32 = 1u;
// Rows 2i and 2i + 1 are gate and up: their output is silu(gate) · up.
const SWIGLU: u32 = 2u;

struct Call {
    columns: u32,
}

@group(0) @binding(0) var<uniform> call: Call;
@group(0) @binding(1) var<uniform> shard: Shard;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

// Takes the products of rows `row`, which is even, and `row + 1` with a column.
fn finish(row: u32, column: u32, first: f32, second: f32) {
    if row >= shard.rows || column >= call.columns {
        return;
    }
    let at = shard.first + row;
    let both = row + 1u < shard.rows;
    var a = first;
    var b = second;
    if shard.biased != 0u {
        a += bias[at];
        if both {
            b += bias[at + 1u];
        }
    }
    let start = column * shard.stride;
    if UPDATE == SWIGLU {
        y[start + at / 2u] = a / (1.0 + exponential(-a)) * b;
        return;
    }
    if UPDATE == ADD {
        a += y[start + at];
        if both {
            b += y[start + at + 1u];
        }
    }
    y[start + at] = a;
    if both {
        y[start + at + 1u] = b;
    }
}
