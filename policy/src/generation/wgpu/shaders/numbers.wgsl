// eˣ, within a few units in the last place on every device: the language allows built-in exponentials to be off by 2|x| units.
// x is clamped to ±87. Sums of products are written as fma throughout, so that no compiler chooses where to round.
fn exponential(x: f32) -> f32 {
    let bounded = clamp(x, -87.0, 87.0);
    let n = round(bounded * 1.442695);
    let r = fma(n, 2.1219444e-4, fma(n, -0.6933594, bounded));
    var p = 1.9875691e-4;
    p = fma(p, r, 1.3982e-3);
    p = fma(p, r, 8.333452e-3);
    p = fma(p, r, 4.1665796e-2);
    p = fma(p, r, 0.16666666);
    p = fma(p, r, 0.5);
    p = fma(p * r, r, r) + 1.0;
    return p * bitcast<f32>(u32(i32(n) + 127) << 23u);
}
