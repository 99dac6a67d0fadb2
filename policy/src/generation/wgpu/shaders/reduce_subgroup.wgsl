// Reductions over a workgroup of THREADS threads: each subgroup by itself, then their results. Subgroups may be of any size.

struct Thread {
    @builtin(local_invocation_index) index: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

var<workgroup> reduced: array<f32, THREADS>;

fn sum_of_all(value: f32, thread: Thread) -> f32 {
    let part = subgroupAdd(value);
    if thread.lane == 0u {
        reduced[thread.subgroup] = part;
    }
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < thread.subgroups; i++) {
        total += reduced[i];
    }
    // The next reduction writes here again.
    workgroupBarrier();
    return total;
}

fn max_of_all(value: f32, thread: Thread) -> f32 {
    let part = subgroupMax(value);
    if thread.lane == 0u {
        reduced[thread.subgroup] = part;
    }
    workgroupBarrier();
    var largest = reduced[0];
    for (var i = 1u; i < thread.subgroups; i++) {
        largest = max(largest, reduced[i]);
    }
    workgroupBarrier();
    return largest;
}
