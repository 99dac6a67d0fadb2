// Words of the two kernels that choose tokens: see the sampler's rule.

const BLOCK: u32 = 1024u;
const BLOCKS: u32 = (VOCAB + BLOCK - 1u) / BLOCK;
// Below every logit that is possible: −∞ is not a number that shaders may count on.
const IMPOSSIBLE: f32 = -3.4028234e38;
// A logit this far below the largest of its block has no weight.
const LOWEST: f32 = -87.0;
const INFINITE: f32 = 2.0;
const NOT_A_NUMBER: f32 = 1.0;

// What is wanted of a row.
const DRAW: u32 = 0u;
const LIKELIEST: u32 = 1u;
const PLACE: u32 = 2u;

struct Pick {
    // The number that decides, in [0, 1).
    u: f32,
    // 1 / temperature.
    sharpness: f32,
    wanted: u32,
    // The token to be placed.
    token: u32,
}

fn weight(depth: f32) -> f32 {
    return select(exponential(depth), 0.0, depth < LOWEST);
}
