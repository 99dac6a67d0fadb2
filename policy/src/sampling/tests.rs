use proptest::prelude::*;

use super::*;

mod reference;

fn params(temperature: f32, top_p: f32, top_k: u32) -> SamplingParams {
    SamplingParams { temperature, top_p, top_k, ..SamplingParams::unbiased(1) }
}

#[test]
fn frequencies_follow_the_distribution() {
    let logits = [0.0f32, 1.0, -1.0, 2.0];
    for temperature in [0.5f32, 1.0, 2.0] {
        let params = params(temperature, 1.0, 0);
        let n = 20_000;
        let mut counts = [0u32; 4];
        for t in 0..n {
            counts[sample(&logits, &params, uniform(&[2; 32], 0, t)).unwrap().token as usize] += 1;
        }
        let total: f64 = logits.iter().map(|l| f64::from(l / temperature).exp()).sum();
        for (logit, count) in logits.iter().zip(counts) {
            let p = f64::from(logit / temperature).exp() / total;
            assert!((f64::from(count) / f64::from(n) - p).abs() < 0.015, "{temperature} {logit}");
        }
    }
}

#[test]
fn truncation_keeps_what_the_rule_says() {
    let logits = [1.0f32, 3.0, 3.0, 2.0, 0.0];
    let reachable = |params: SamplingParams| {
        let mut seen: Vec<u32> =
            (0..1000).map(|i| sample(&logits, &params, f64::from(i) / 1000.0).unwrap().token).collect();
        seen.dedup();
        seen
    };
    assert_eq!(reachable(params(1.0, 1.0, 1)), [1]);
    assert_eq!(reachable(params(1.0, 1.0, 3)), [1, 2, 3]);
    assert_eq!(reachable(params(1.0, 0.35, 0)), [1]);
    assert_eq!(reachable(params(1.0, 0.5, 0)), [1, 2]);
    assert_eq!(reachable(params(1.0, 0.01, 2)), [1]);
    assert_eq!(reachable(params(0.0, 0.5, 3)), [1]);
    let both = sample(&logits, &params(1.0, 0.9, 2), 0.0).unwrap();
    assert!((both.logprob - 0.5f32.ln()).abs() < 1e-6);
    assert_eq!(both.raw_logprob, raw_logprob(&logits, 1).unwrap());
}

#[test]
fn broken_logits_are_errors_and_impossible_tokens_are_never_drawn() {
    let params = params(1.0, 1.0, 0);
    for bad in [&[][..], &[f32::NAN, 1.0], &[f32::INFINITY], &[f32::NEG_INFINITY; 3]] {
        assert!(matches!(sample(bad, &params, 0.5), Err(SamplingError::Logits { .. })));
    }
    let logits = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
    for u in [0.0, 0.5, 1.0 - f64::EPSILON / 2.0, 1.0] {
        assert_eq!(sample(&logits, &params, u).unwrap().token, 1);
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    for bad in [params(-1.0, 1.0, 0), params(f32::NAN, 1.0, 0), params(1.0, 0.0, 0), params(1.0, 1.5, 0)] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
    assert!(SamplingParams::unbiased(0).validate().is_err());
    assert!(SamplingParams::unbiased(1).validate().is_ok());
}

#[test]
fn what_is_never_drawn_is_far_from_every_draw() {
    let logits = [0.0f32, 2.0, 1.0];
    let greedy = params(0.0, 1.0, 0);
    assert_eq!(interval(&logits, &greedy, 1).unwrap().distance(0.3), 0.0);
    assert_eq!(interval(&logits, &greedy, 2).unwrap().distance(0.3), f64::INFINITY);
    let cut = interval(&logits, &params(1.0, 1.0, 2), 0).unwrap();
    assert_eq!((cut.low, cut.high, cut.logprob), (0.0, 0.0, f32::NEG_INFINITY));
    assert!(matches!(interval(&logits, &greedy, 3), Err(SamplingError::Token { token: 3, vocab: 3 })));
}

/// Numbers in [0, 1), the same in every run.
fn numbers(seed: u32) -> impl FnMut() -> f64 {
    let mut at = 0;
    move || {
        at += 1;
        uniform(&[9; 32], seed, at)
    }
}

/// Logits of this spread, some of them equal, some impossible.
fn row(next: &mut impl FnMut() -> f64, len: usize, spread: f64) -> Vec<f32> {
    let mut row: Vec<f32> =
        (0..len).map(|_| ((0..6).map(|_| next() - 0.5).sum::<f64>() * spread) as f32).collect();
    for _ in 0..len / 8 {
        let (from, to) = ((next() * len as f64) as usize, (next() * len as f64) as usize);
        row[to] = if next() < 0.2 && to > 0 { f32::NEG_INFINITY } else { row[from] };
    }
    row
}

#[test]
fn draws_are_those_of_exact_arithmetic_but_at_borders() {
    let mut next = numbers(1);
    let (mut compared, mut moved) = (0, 0);
    for round in 0..600 {
        let len = [3, 40, 900, 1024, 2500][round % 5];
        let spread = [0.0, 1.0, 6.0, 60.0][round % 4];
        let logits = row(&mut next, len, spread);
        if logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
            continue;
        }
        let temperature = [1.0, 0.7, 1.9, 0.05, 1e-30, 0.0][(next() * 6.0) as usize];
        let top_p = [1.0, 1.0, 0.999, 0.9, 0.3][(next() * 5.0) as usize];
        let top_k = [0, 0, 1, 2, 30, 1000][(next() * 6.0) as usize];
        let params = params(temperature, top_p, top_k);
        let exact = reference::Exact::new(&logits, &params);
        if exact.near_a_prefix(1e-6) {
            continue;
        }
        for _ in 0..4 {
            let u = next();
            let drawn = sample(&logits, &params, u).unwrap();
            let (token, expected) = (drawn.token as usize, exact.draw(u));
            compared += 1;
            if token != expected {
                moved += 1;
                let (low, high) = exact.span(token);
                assert!((low - u).max(u - high) < 1e-6, "{params:?} {u}: {token} for {expected}");
            }
            let tolerance = |exact: f64| 1e-6 + exact.abs() * f64::from(f32::EPSILON);
            for (found, exact) in
                [(drawn.logprob, exact.logprob(token)), (drawn.raw_logprob, exact.raw_logprob(token))]
            {
                assert!((f64::from(found) - exact).abs() < tolerance(exact), "{params:?}: {found} {exact}");
            }
            let claimed = interval(&logits, &params, drawn.token).unwrap();
            assert!(claimed.distance(u) < 1e-12, "{params:?} {u}: {claimed:?}");
            assert_eq!((claimed.logprob, claimed.raw_logprob), (drawn.logprob, drawn.raw_logprob));
            assert_eq!(raw_logprob(&logits, drawn.token).unwrap(), drawn.raw_logprob);
            assert!(claimed.cut >= 0.0);
            // Any other token: the same interval, and the side of the border that it is on.
            let other = (next() * len as f64) as usize;
            let claimed = interval(&logits, &params, other as u32).unwrap();
            let (low, high) = exact.span(other);
            assert_eq!(claimed.logprob > f32::NEG_INFINITY, exact.keeps(other), "{params:?}: {claimed:?}");
            assert!(if exact.keeps(other) { claimed.cut >= 0.0 } else { claimed.cut <= 0.0 }, "{claimed:?}");
            let near = (claimed.low - low).abs() < 1e-6 && (claimed.high - high).abs() < 1e-6;
            assert!(near || claimed.low == f64::INFINITY, "{params:?}: {claimed:?} {low} {high}");
        }
    }
    assert!(compared > 1500 && moved < 5, "{compared} draws, {moved} moved");
}

#[test]
fn a_whole_vocabulary_keeps_its_accuracy() {
    let mut next = numbers(2);
    // One likely token beside very many that are unlikely and nearly equal: what sums in f32 lose.
    let mut logits: Vec<f32> = (0..151_936).map(|_| -0.1 + 1e-4 * next() as f32).collect();
    logits[70_001] = 11.9;
    for temperature in [1.0, 0.9] {
        let params = params(temperature, 1.0, 0);
        let exact = reference::Exact::new(&logits, &params);
        for token in [0, 5, 70_000, 70_001, 70_002, 151_935] {
            let claimed = interval(&logits, &params, token).unwrap();
            let (low, high) = exact.span(token as usize);
            assert!(
                (claimed.low - low).abs() < 2e-7 && (claimed.high - high).abs() < 2e-7,
                "{claimed:?} {low} {high}"
            );
            assert!((f64::from(claimed.logprob) - exact.logprob(token as usize)).abs() < 1e-6);
        }
    }
}

#[test]
fn a_token_ruled_out_is_as_far_as_its_way_back() {
    let ln = |p: f64| p.ln() as f32;
    let logits = [ln(0.5), ln(0.1), ln(0.3), f32::NEG_INFINITY, ln(0.1)];
    let cut = |params: &SamplingParams, token| interval(&logits, params, token).unwrap().cut;
    let near =
        |found: f32, expected: f64| assert!((f64::from(found) - expected).abs() < 2e-6, "{found} {expected}");
    // Two stay: the others have to pass the second.
    let ranked = params(0.5, 1.0, 2);
    near(cut(&ranked, 0), (0.5f64 / 0.3).ln() / 0.5);
    near(cut(&ranked, 2), 0.0);
    near(cut(&ranked, 1), (0.1f64 / 0.3).ln() / 0.5);
    // 0.5 + 0.3 are enough, and by so little that the third need not pass the second.
    let nucleus = params(1.0, 0.79, 0);
    near(cut(&nucleus, 2), 0.0);
    near(cut(&nucleus, 1), (0.79f64 / 0.8).ln());
    near(cut(&nucleus, 4), (0.79f64 / 0.9).ln());
    assert_eq!(cut(&nucleus, 3), f32::NEG_INFINITY);
    // Beyond top-k the mass counts for nothing.
    near(cut(&params(1.0, 0.99, 2), 1), (0.1f64 / 0.3).ln());
    // At equal logits it is the id alone that rules a token out.
    near(cut(&params(1.0, 1.0, 3), 4), 0.0);
    near(cut(&params(0.0, 1.0, 0), 2), (0.3f64 / 0.5).ln());
    assert_eq!(cut(&params(0.7, 1.0, 0), 1), f32::INFINITY);
}

#[test]
fn blocks_without_a_possible_token_hide_nothing() {
    let mut logits = vec![f32::NEG_INFINITY; 3000];
    logits[1500] = 1.0;
    logits[2999] = 0.0;
    for params in [params(1.0, 1.0, 0), params(0.5, 1.0, 0), params(1.0, 0.9999, 0), params(1.0, 1.0, 2)] {
        assert_eq!(sample(&logits, &params, 0.0).unwrap().token, 1500);
        assert_eq!(sample(&logits, &params, 0.999).unwrap().token, 2999);
        let first = interval(&logits, &params, 0).unwrap();
        assert_eq!((first.low, first.high, first.logprob), (0.0, 0.0, f32::NEG_INFINITY));
    }
    // More than are possible may stay.
    assert_eq!(sample(&logits, &params(1.0, 1.0, 5), 0.999).unwrap().token, 2999);
    for (at, bad) in [(10, f32::NAN), (2000, f32::NAN), (2999, f32::NAN), (2500, f32::INFINITY)] {
        let mut broken = logits.clone();
        broken[at] = bad;
        assert!(
            matches!(sample(&broken, &params(1.0, 1.0, 0), 0.5), Err(SamplingError::Logits { .. })),
            "{at}"
        );
        assert!(matches!(raw_logprob(&broken, 0), Err(SamplingError::Logits { .. })), "{at}");
    }
}

#[test]
fn extreme_logits_and_temperatures_are_no_special_case() {
    let logits = [-3e38f32, 3e38, 2e38, -0.0, 0.0];
    for temperature in [1e-45f32, 1e-10, 1.0, 100.0] {
        for (top_p, top_k) in [(1.0, 0), (0.5, 0), (1.0, 3), (0.5, 4)] {
            let drawn = sample(&logits, &params(temperature, top_p, top_k), 0.7).unwrap();
            assert_eq!((drawn.token, drawn.logprob, drawn.raw_logprob), (1, 0.0, 0.0));
        }
    }
}

proptest! {
    #[test]
    fn a_draw_lies_in_the_interval_of_its_token(
        logits in prop::collection::vec(-8.0f32..8.0, 1..40),
        temperature in 0.0f32..5.0, top_p in 0.01f32..=1.0, top_k in 0u32..50, u in 0.0f64..1.0,
    ) {
        let params = params(temperature, top_p, top_k);
        let drawn = sample(&logits, &params, u).unwrap();
        let mut open = 0.0;
        for token in 0..logits.len() as u32 {
            let interval = interval(&logits, &params, token).unwrap();
            // Borders are sums in another order than the draw's: they may differ in the last bits.
            let distance = interval.distance(u);
            if token == drawn.token {
                prop_assert!(distance < 1e-12, "{distance}");
                prop_assert_eq!(interval.logprob, drawn.logprob);
            }
            open += if interval.high.is_finite() { interval.high - interval.low } else { 0.0 };
        }
        prop_assert!((open - 1.0).abs() < 1e-9, "the intervals are the whole range: {open}");
    }

    #[test]
    fn a_drawn_token_always_has_probability(
        logits in prop::collection::vec(-80.0f32..80.0, 1..40),
        temperature in 0.0f32..5.0, top_p in 0.01f32..=1.0, top_k in 0u32..50, u in 0.0f64..1.0,
    ) {
        let drawn = sample(&logits, &params(temperature, top_p, top_k), u).unwrap();
        prop_assert!((drawn.token as usize) < logits.len());
        prop_assert!(drawn.logprob.is_finite() && drawn.logprob <= 1e-6);
        prop_assert!(drawn.raw_logprob.is_finite() && drawn.raw_logprob <= 1e-6);
    }
}
