// The weights of blocks of 1,024 tokens, each relative to the largest logit of its block: what is left of a row of logits for the
// choice of a token. A workgroup does one block of one row.

@group(0) @binding(0) var<storage, read> picks: array<Pick>;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// `[row][block]`: the largest logit, Σ exp(logit − largest), Σ exp((logit − largest) / temperature), and what is wrong.
@group(0) @binding(2) var<storage, read_write> blocks: array<vec4<f32>>;

@compute @workgroup_size(THREADS)
fn main(thread: Thread) {
    let block = thread.group.x;
    let row = thread.group.y;
    let end = min((block + 1u) * BLOCK, VOCAB);
    var top = IMPOSSIBLE;
    var wrong = 0.0;
    for (var id = block * BLOCK + thread.index; id < end; id += THREADS) {
        let logit = logits[row * VOCAB + id];
        // Comparisons of what is no number may come out either way: its bits do not.
        let bits = bitcast<u32>(logit);
        if (bits & 0x7fffffffu) > 0x7f800000u {
            wrong = max(wrong, NOT_A_NUMBER);
        } else if bits == 0x7f800000u {
            wrong = INFINITE;
        } else {
            top = max(top, logit);
        }
    }
    top = max_of_all(top, thread);
    wrong = max_of_all(wrong, thread);
    let sharpness = picks[row].sharpness;
    var raw = 0.0;
    var drawn = 0.0;
    for (var id = block * BLOCK + thread.index; id < end; id += THREADS) {
        let logit = logits[row * VOCAB + id];
        raw += weight(logit - top);
        drawn += weight((logit - top) * sharpness);
    }
    raw = sum_of_all(raw, thread);
    drawn = sum_of_all(drawn, thread);
    if thread.index == 0u {
        blocks[row * BLOCKS + block] = vec4(top, raw, drawn, wrong);
    }
}
