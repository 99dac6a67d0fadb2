// Where keys and values lie: a page of one layer is `[keys, values][kv_head]` of blocks for PAGE tokens. A block of keys is
// `[dimension / 4][token][4]`, so that threads with neighbouring tokens read neighbouring numbers; one of values is `[token][dimension]`.
// PADDED is the dimension of a head rounded up to whole fours; what is behind HEAD is zero.

const PAGE: u32 = 32u;
const BLOCK: u32 = PADDED * PAGE;

struct Token {
    id: u32,
    position: u32,
    // Where the pages of its sequence begin in the table.
    table: u32,
    unused: u32,
}

// The first number of a head's keys in a page, or of its values.
fn block_of(page: u32, kind: u32, head: u32) -> u32 {
    return ((page * 2u + kind) * KV_HEADS + head) * BLOCK;
}
