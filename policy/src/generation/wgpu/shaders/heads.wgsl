// Normalises query and key heads where the family does, rotates them to their positions, and puts keys and values into their pages.
// A workgroup does one head of one token: queries first, then keys, then values.

const HALF: u32 = HEAD / 2u;

@group(0) @binding(0) var<storage, read> tokens: array<Token>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
// `[token][cos, sin][HALF]`.
@group(0) @binding(2) var<storage, read> rotary: array<f32>;
@group(0) @binding(3) var<storage, read> qkv: array<f32>;
// Weights of the norms of queries and keys.
@group(0) @binding(4) var<storage, read> norms: array<f32>;
// `[token][query head][PADDED]`.
@group(0) @binding(5) var<storage, read_write> queries: array<f32>;
@group(0) @binding(6) var<storage, read_write> pages: array<f32>;

@compute @workgroup_size(THREADS)
fn main(thread: Thread) {
    let number = thread.group.x;
    let head = thread.group.y;
    let token = tokens[number];
    let source = number * STRIDE + head * HEAD;
    let slot = token.position % PAGE;
    let page = table[token.table + token.position / PAGE];
    if head >= QUERIES + KV_HEADS {
        let to = block_of(page, 1u, head - QUERIES - KV_HEADS) + slot * PADDED;
        for (var d = thread.index; d < PADDED; d += THREADS) {
            pages[to + d] = select(0.0, qkv[source + min(d, HEAD - 1u)], d < HEAD);
        }
        return;
    }
    let is_query = head < QUERIES;
    let keys = block_of(page, 0u, max(head, QUERIES) - QUERIES);
    let query = (number * QUERIES + head) * PADDED;
    var scale = 1.0;
    if NORMED == 1u {
        var squares = 0.0;
        for (var d = thread.index; d < HEAD; d += THREADS) {
            squares = fma(qkv[source + d], qkv[source + d], squares);
        }
        scale = 1.0 / sqrt(sum_of_all(squares, thread) / f32(HEAD) + EPS);
    }
    for (var d = thread.index; d < PADDED; d += THREADS) {
        var rotated = 0.0;
        if d < HEAD {
            // Dimensions d and d + HALF are turned together.
            let angle = number * HEAD + d % HALF;
            let other = (d + HALF) % HEAD;
            var own_value = qkv[source + d];
            var other_value = qkv[source + other];
            if NORMED == 1u {
                let weights = select(HEAD, 0u, is_query);
                own_value = own_value * scale * norms[weights + d];
                other_value = other_value * scale * norms[weights + other];
            }
            let sine = select(rotary[angle + HALF], -rotary[angle + HALF], d < HALF);
            rotated = fma(other_value, sine, own_value * rotary[angle]);
        }
        if is_query {
            queries[query + d] = rotated;
        } else {
            pages[keys + (d / 4u * PAGE + slot) * 4u + d % 4u] = rotated;
        }
    }
}
