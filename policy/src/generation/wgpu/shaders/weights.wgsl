// Weights as they were published, eight numbers at a time. DTYPE is one of these.
const F32: u32 = 0u;
const BF16: u32 = 1u;
const F16: u32 = 2u;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn two_bf16(packed: u32) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2(packed << 16u, packed & 0xffff0000u));
}

// Numbers 8 · at and the seven behind it.
fn eight(at: u32) -> Eight {
    if DTYPE == F32 {
        return Eight(bitcast<vec4<f32>>(weights[2u * at]), bitcast<vec4<f32>>(weights[2u * at + 1u]));
    }
    let packed = weights[at];
    if DTYPE == BF16 {
        let low = vec4(two_bf16(packed.x), two_bf16(packed.y));
        return Eight(low, vec4(two_bf16(packed.z), two_bf16(packed.w)));
    }
    let low = vec4(unpack2x16float(packed.x), unpack2x16float(packed.y));
    return Eight(low, vec4(unpack2x16float(packed.z), unpack2x16float(packed.w)));
}
