// Reductions over a workgroup of THREADS threads, through workgroup memory.

struct Thread {
    @builtin(local_invocation_index) index: u32,
    @builtin(workgroup_id) group: vec3<u32>,
}

var<workgroup> reduced: array<f32, THREADS>;

fn sum_of_all(value: f32, thread: Thread) -> f32 {
    reduced[thread.index] = value;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread.index < width {
            reduced[thread.index] += reduced[thread.index + width];
        }
        workgroupBarrier();
    }
    let total = reduced[0];
    // The next reduction writes here again.
    workgroupBarrier();
    return total;
}

fn max_of_all(value: f32, thread: Thread) -> f32 {
    reduced[thread.index] = value;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread.index < width {
            reduced[thread.index] = max(reduced[thread.index], reduced[thread.index + width]);
        }
        workgroupBarrier();
    }
    let largest = reduced[0];
    workgroupBarrier();
    return largest;
}
