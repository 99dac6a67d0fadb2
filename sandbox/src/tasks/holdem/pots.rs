//! Main pot and side pots, from what every seat put in.

/// Chips and who may win them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pot {
    /// Chips in this pot, those of folded seats included.
    pub chips: u64,
    /// The seats that can still win and have put in their full share, ascending.
    pub eligible: Vec<usize>,
}

/// The main pot, then the side pots in the order in which they were formed.
///
/// `paid` is what each seat bet in the whole hand and did not get back; `dead` are chips that
/// belong to the main pot whoever put them in; `folded` says who cannot win any more.
pub fn split(paid: &[u64], dead: u64, folded: &[bool]) -> Vec<Pot> {
    let contenders: Vec<usize> = (0..paid.len()).filter(|&seat| !folded[seat]).collect();
    // What only folded seats have put in so high belongs to those who come closest.
    let reach = contenders.iter().map(|&seat| paid[seat]).max().unwrap_or(0);
    let mut levels = paid.to_vec();
    levels.sort_unstable();
    levels.dedup();
    let mut pots: Vec<Pot> = Vec::new();
    let (mut below, mut carried) = (0, dead);
    for level in levels {
        carried += paid.iter().map(|&chips| chips.min(level).saturating_sub(below)).sum::<u64>();
        below = level;
        if carried == 0 {
            continue;
        }
        let full = |seat: &usize| paid[*seat] >= level.min(reach);
        let eligible: Vec<usize> = contenders.iter().copied().filter(full).collect();
        match pots.last_mut() {
            // Layers with the same contenders are one pot.
            Some(pot) if pot.eligible == eligible => pot.chips += carried,
            _ => pots.push(Pot { chips: carried, eligible }),
        }
        carried = 0;
    }
    pots
}

/// What each of `winners`, ascending, gets of `chips`: equal shares, and the odd chips to the first
/// of them, who sits nearest to the left of the button.
pub fn shares(chips: u64, winners: &[usize]) -> impl Iterator<Item = (usize, u64)> {
    let count = winners.len().max(1) as u64;
    let odd = move |position| if position == 0 { chips % count } else { 0 };
    winners.iter().enumerate().map(move |(position, &seat)| (seat, chips / count + odd(position)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pots(paid: &[u64], dead: u64, folded: &[usize]) -> Vec<(u64, Vec<usize>)> {
        let folded: Vec<bool> = (0..paid.len()).map(|seat| folded.contains(&seat)).collect();
        split(paid, dead, &folded).into_iter().map(|pot| (pot.chips, pot.eligible)).collect()
    }

    #[test]
    fn every_all_in_closes_a_pot() {
        assert_eq!(
            pots(&[50, 100, 200, 200], 0, &[]),
            [(200, vec![0, 1, 2, 3]), (150, vec![1, 2, 3]), (200, vec![2, 3])]
        );
    }

    #[test]
    fn folded_chips_stay_without_making_a_pot() {
        assert_eq!(pots(&[30, 100, 100], 0, &[0]), [(230, vec![1, 2])]);
        assert_eq!(pots(&[0, 10, 60, 60], 0, &[1]), [(130, vec![2, 3])]);
        assert_eq!(pots(&[40, 70, 60], 0, &[1]), [(120, vec![0, 2]), (50, vec![2])]);
        assert_eq!(pots(&[5, 0, 5, 0], 0, &[0, 2]), [(10, vec![1, 3])]);
    }

    #[test]
    fn dead_chips_are_the_main_pots() {
        assert_eq!(pots(&[0, 20, 20], 15, &[]), [(15, vec![0, 1, 2]), (40, vec![1, 2])]);
        assert_eq!(pots(&[20, 20], 5, &[]), [(45, vec![0, 1])]);
        assert_eq!(pots(&[0, 0], 0, &[]), []);
    }

    #[test]
    fn the_odd_chips_go_to_the_first() {
        assert_eq!(shares(11, &[1, 4, 5]).collect::<Vec<_>>(), [(1, 5), (4, 3), (5, 3)]);
        assert_eq!(shares(3, &[2]).collect::<Vec<_>>(), [(2, 3)]);
    }
}
