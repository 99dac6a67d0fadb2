use super::*;
use echo_protocol::wire::rng::Draws;

use crate::tasks::holdem::cards::card::Deck;

fn worth(text: &str) -> Strength {
    evaluate(Card::parse_run(text).unwrap().into_iter().flatten())
}

/// The definition of a five-card hand, written the slow way: sorted counts, then comparison.
fn plainly(cards: &[Card]) -> (Category, Vec<u8>) {
    let mut ranks: Vec<u8> = cards.iter().map(|card| card.rank()).collect();
    ranks.sort_unstable();
    ranks.reverse();
    let mut counted: Vec<(usize, u8)> = Vec::new();
    for &rank in &ranks {
        let count = ranks.iter().filter(|&&one| one == rank).count();
        if !counted.contains(&(count, rank)) {
            counted.push((count, rank));
        }
    }
    counted.sort_unstable();
    counted.reverse();
    let order: Vec<u8> = counted.iter().map(|&(_, rank)| rank).collect();
    let flush = cards.iter().all(|card| card.suit() == cards[0].suit());
    let top = match ranks.as_slice() {
        [12, 3, 2, 1, 0] => Some(3),
        _ if ranks.windows(2).all(|pair| pair[0] == pair[1] + 1) => Some(ranks[0]),
        _ => None,
    };
    let counts: Vec<usize> = counted.iter().map(|&(count, _)| count).collect();
    match (top, flush, counts.as_slice()) {
        (Some(top), true, _) => (Category::StraightFlush, vec![top]),
        (_, _, [4, 1]) => (Category::Quads, order),
        (_, _, [3, 2]) => (Category::FullHouse, order),
        (_, true, _) => (Category::Flush, order),
        (Some(top), _, _) => (Category::Straight, vec![top]),
        (_, _, [3, ..]) => (Category::Trips, order),
        (_, _, [2, 2, _]) => (Category::TwoPair, order),
        (_, _, [2, ..]) => (Category::Pair, order),
        _ => (Category::HighCard, order),
    }
}

/// The best of the 21 choices of five from seven.
fn best_of_seven(cards: &[Card]) -> (Category, Vec<u8>) {
    let mut best = None;
    for i in 0..7 {
        for j in i + 1..7 {
            let five: Vec<Card> = (0..7).filter(|&k| k != i && k != j).map(|k| cards[k]).collect();
            best = best.max(Some(plainly(&five)));
        }
    }
    best.unwrap()
}

#[test]
fn seven_cards_compare_as_the_best_five_of_them() {
    let mut draws = Draws::new([9; 32]);
    let mut deck = Deck::without(&[]);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        // Two hands on one board, so that close calls and ties are frequent.
        let cards = deck.sample(9, &mut draws).to_vec();
        let (one, other) = (&cards[..7], &cards[2..]);
        let (slow, slow_other) = (best_of_seven(one), best_of_seven(other));
        let (fast, fast_other) = (evaluate(one.iter().copied()), evaluate(other.iter().copied()));
        assert_eq!(fast.category(), slow.0, "{one:?}");
        assert_eq!(fast.cmp(&fast_other), slow.cmp(&slow_other), "{cards:?}");
        seen.insert(slow.0 as u8);
    }
    assert!(seen.len() >= 8, "{seen:?}");
}

/// How many five-card hands there are of each category is known: it needs every one of the 2,598,960.
#[test]
fn five_card_hands_are_as_many_as_they_are_known_to_be() {
    let cards: Vec<Card> = Card::all().collect();
    let mut counts = [0_u32; 9];
    for a in 0..52 {
        for b in a + 1..52 {
            for c in b + 1..52 {
                for d in c + 1..52 {
                    for e in d + 1..52 {
                        let five = [a, b, c, d, e].map(|index: usize| cards[index]);
                        counts[evaluate(five).category() as usize] += 1;
                    }
                }
            }
        }
    }
    assert_eq!(counts, [1_302_540, 1_098_240, 123_552, 54_912, 10_200, 5_108, 3_744, 624, 40]);
}

#[test]
fn close_hands_are_told_apart() {
    for (better, worse) in [
        ("2c3d4h5s6c", "Ac2d3h4s5c"),
        ("AhKhQhJhTh9h8h", "KhQhJhTh9h8h7h"),
        ("2c2d2h3c3d9s8s", "AcKcQcJc9c2d3h"),
        ("3c3d3h2c2d2h9s", "2c2d2h3c3dAhAs"),
        ("AcAdKcKdQsQh2c", "AcAdKcKdJsJh9c"),
        ("9c9d9h9sAc2d3d", "9c9d9h9sKcKdKh"),
    ] {
        assert!(worth(better) > worth(worse), "{better} {worse}");
    }
    assert_eq!(worth("AhKd2c7s9hTdJc"), worth("AcKh3d7d9sThJs"));
    assert_eq!(worth("AhAd"), worth("AcAs"));
}
