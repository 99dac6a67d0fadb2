//! How far nodes are believed about the log-probabilities of their tokens.

/// A reported log-probability is trained on as if it were no further than this from the policy's
/// own of the same token, in nats. Objectives weigh a token by e to that distance: unbounded, one
/// false number would rule an update, and be missed by whoever looks at another trajectory of its
/// group. Within it, a token weighs at most e^5 ≈ 148 times another. An honest lag of S updates
/// moves a token by far less, with the steps that training allows.
pub const CLAIMED_WITHIN: f64 = 5.0;

/// Moves what is `claimed` of tokens to within [`CLAIMED_WITHIN`] of the policy's `own` numbers.
/// Returns how many it moved; the others keep their bits. Where the policy has no number, there is
/// nothing to hold a claim against.
pub(super) fn bound(claimed: &mut [f64], own: &[f64]) -> u64 {
    let mut moved = 0;
    for (claimed, own) in claimed.iter_mut().zip(own).filter(|(_, own)| own.is_finite()) {
        let believed = claimed.clamp(own - CLAIMED_WITHIN, own + CLAIMED_WITHIN);
        if believed != *claimed {
            *claimed = believed;
            moved += 1;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_keeps_its_bits_and_what_is_far_is_moved_to_the_edge() {
        let own = [-1.0, -1.0, -1.0, -7.0, -1.0, f64::NAN, f64::NEG_INFINITY];
        let before = [-1.000_001, -6.0, -20.9, -0.5, f64::from(f32::MIN), -3.0, -3.0];
        let mut claimed = before;
        assert_eq!(bound(&mut claimed, &own), 3);
        assert_eq!(claimed, [before[0], -6.0, -6.0, -2.0, -6.0, -3.0, -3.0]);
        assert_eq!(claimed[0].to_bits(), before[0].to_bits());
        assert_eq!(bound(&mut claimed, &own), 0, "once is enough");
    }
}
