use super::*;

const SHAPE: CpuPageShape = CpuPageShape { layers: 1, kv_heads: 1, head_lines: 1 };

/// Writes `value` as a token.
fn push(cache: &mut KvCache, value: f32) {
    cache.reserve(1);
    let (page, slot) = (cache.len() / PAGE_TOKENS, cache.len() % PAGE_TOKENS);
    let page = cache.pages().nth(page).unwrap();
    // SAFETY: the place was reserved, and nobody else looks at it.
    unsafe { (*page.add(SHAPE.values(0, 0) + slot)).0[0] = value };
    cache.advance(1);
}

fn tokens(cache: &KvCache) -> Vec<f32> {
    let pages: Vec<_> = cache.pages().collect();
    let value = |token: usize| {
        // SAFETY: the place was written, and nobody writes to it now.
        unsafe { (*pages[token / PAGE_TOKENS].add(SHAPE.values(0, 0) + token % PAGE_TOKENS)).0[0] }
    };
    (0..cache.len()).map(value).collect()
}

#[test]
fn clones_share_pages_until_they_differ() {
    for common in [0, 1, 31, 32, 33, 64, 70] {
        let mut first = KvCache::new(SHAPE);
        (0..common).for_each(|token| push(&mut first, token as f32));
        let mut second = first.clone();
        push(&mut second, -1.0);
        push(&mut first, -2.0);
        (0..40).for_each(|_| push(&mut second, -3.0));
        let begins: Vec<f32> = (0..common).map(|token| token as f32).collect();
        assert_eq!(tokens(&first), [begins.clone(), vec![-2.0]].concat());
        assert_eq!(tokens(&second), [begins, vec![-1.0], vec![-3.0; 40]].concat());
        let same = first.pages().zip(second.pages()).filter(|(a, b)| a == b).count();
        assert_eq!(same, common / PAGE_TOKENS, "whole pages stay shared");
    }
}

#[test]
fn a_reservation_that_comes_to_nothing_is_made_again() {
    let mut cache = KvCache::new(SHAPE);
    (0..30).for_each(|token| push(&mut cache, token as f32));
    cache.reserve(100);
    assert_eq!((cache.len(), cache.pages().len()), (30, 5));
    let copy = cache.clone();
    cache.reserve(1);
    assert_eq!(cache.pages().len(), 1);
    assert_ne!(cache.pages().next(), copy.pages().next(), "what may be written is not shared");
    push(&mut cache, 7.0);
    assert_eq!((tokens(&copy).len(), tokens(&cache)[30]), (30, 7.0));
}
