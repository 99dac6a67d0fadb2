use super::*;

const KV_HEADS: usize = 2;
const GROUP: usize = 3;
const DIM: usize = 4;

fn values(count: usize, phase: f32) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * 1.3 + phase).sin() * 1.5).collect()
}

struct Case {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    d_out: Vec<f32>,
}

fn case(rows: usize) -> Case {
    Case {
        q: values(rows * KV_HEADS * GROUP * DIM, 0.1),
        k: values(rows * KV_HEADS * DIM, 0.5),
        v: values(rows * KV_HEADS * DIM, 0.9),
        d_out: values(rows * KV_HEADS * GROUP * DIM, 2.0),
    }
}

/// Results and the gradients of queries, keys and values.
fn run(attention: &AttentionShape<'_>, case: &Case) -> [Vec<f32>; 4] {
    let inputs = AttentionInputs { q: &case.q, k: &case.k, v: &case.v };
    let mut out = vec![f32::NAN; case.q.len()];
    let mut normalisers = vec![f32::NAN; case.q.len() / DIM];
    attention.forward(inputs, &mut out, &mut normalisers);
    let (mut dq, mut dk, mut dv) =
        (vec![f32::NAN; case.q.len()], vec![f32::NAN; case.k.len()], vec![f32::NAN; case.v.len()]);
    attention.backward(
        inputs,
        Results { out: &out, normalisers: &normalisers, d_out: &case.d_out },
        Outputs { dq: &mut dq, dk: &mut dk, dv: &mut dv },
    );
    [out, dq, dk, dv]
}

/// One result row in f64, token by token.
fn exact(sequences: &[Range<usize>], case: &Case, row: usize, head: usize) -> Vec<f64> {
    let rows = sequences.last().unwrap().end;
    let sequence = sequences.iter().find(|sequence| sequence.contains(&row)).unwrap();
    let slab = head / GROUP;
    let start = ((slab * rows + row) * GROUP + head % GROUP) * DIM;
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let key = |token: usize| &case.k[(slab * rows + token) * DIM..][..DIM];
    let weights: Vec<f64> =
        (sequence.start..=row).map(|token| dot(&case.q[start..start + DIM], key(token)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let value = |token: usize, i: usize| f64::from(case.v[(token * KV_HEADS + slab) * DIM + i]);
    let mix =
        |i: usize| (sequence.start..=row).zip(&weights).map(|(token, w)| w * value(token, i)).sum::<f64>();
    (0..DIM).map(|i| mix(i) / total).collect()
}

#[test]
fn results_are_those_of_the_definition() {
    let sequences = [0..7, 7..8, 8..20];
    let case = case(20);
    let [out, ..] = run(&AttentionShape::new(&sequences, KV_HEADS, GROUP, DIM), &case);
    for row in 0..20 {
        for head in 0..KV_HEADS * GROUP {
            let found = &out[(row * KV_HEADS * GROUP + head) * DIM..][..DIM];
            for (found, exact) in found.iter().zip(exact(&sequences, &case, row, head)) {
                assert!((f64::from(*found) - exact).abs() < 1e-5, "row {row} head {head}: {found} {exact}");
            }
        }
    }
}

/// Finite differences through the whole decoder see one tile only; this is what holds the borders
/// of tiles to them.
#[test]
fn borders_of_tiles_do_not_matter() {
    let sequences = [0..7, 7..8, 8..20];
    let case = case(20);
    let whole = run(&AttentionShape::new(&sequences, KV_HEADS, GROUP, DIM), &case);
    for (query_tokens, key_tokens) in [(1, 1), (2, 3), (3, 2), (5, 4), (4, 20)] {
        let shape = AttentionShape::new(&sequences, KV_HEADS, GROUP, DIM);
        let tiled = run(&AttentionShape { query_tokens, key_tokens, ..shape }, &case);
        for (part, (tiled, whole)) in tiled.iter().zip(&whole).enumerate() {
            for (a, b) in tiled.iter().zip(whole) {
                assert!(
                    (a - b).abs() < 2e-5 * (1.0 + b.abs()),
                    "{query_tokens} {key_tokens} {part}: {a} {b}"
                );
            }
        }
    }
}
