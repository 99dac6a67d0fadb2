// The embeddings of tokens whose ids lie in one shard. A workgroup does one token.

struct Token {
    id: u32,
    position: u32,
    // Where the pages of its sequence begin in the table.
    table: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> shard: Shard;
@group(0) @binding(1) var<storage, read> tokens: array<Token>;
@group(0) @binding(2) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(THREADS)
fn main(thread: Thread) {
    let token = thread.group.x;
    let id = tokens[token].id;
    if id < shard.first || id - shard.first >= shard.rows {
        return;
    }
    let eights = shard.width / 8u;
    for (var at = thread.index; at < eights; at += THREADS) {
        let numbers = eight((id - shard.first) * eights + at);
        x[2u * (token * eights + at)] = numbers.low;
        x[2u * (token * eights + at) + 1u] = numbers.high;
    }
}
