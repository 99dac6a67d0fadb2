// Copies pages of one layer: what sequences go on from that others go on from as well.

struct Copy {
    from_page: u32,
    to_page: u32,
}

@group(0) @binding(0) var<storage, read> copies: array<Copy>;
@group(0) @binding(1) var<storage, read_write> pages: array<vec4<f32>>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let job = copies[group.x];
    for (var i = thread; i < PAGE_FOURS; i += THREADS) {
        pages[job.to_page * PAGE_FOURS + i] = pages[job.from_page * PAGE_FOURS + i];
    }
}
