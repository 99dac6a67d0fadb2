//! Turn-aware masks: which tokens of a conversation the policy is trained on (ECHO-2 F.5.1).

/// m^resp of eq. 18 and 19 for a tokenised conversation that opens every message with the token
/// `start`, the first message being the system's: true for the tokens of the third, fifth, ...
/// message, which are the assistant's.
///
/// A message's opening token and its role are part of it, as in the paper. A driver that knows
/// which tokens were sampled takes those alone.
pub fn response_mask(tokens: &[u32], start: u32) -> Vec<bool> {
    let mut turn = 0_usize;
    let mask = tokens.iter().map(|&token| {
        turn += usize::from(token == start);
        turn > 1 && turn % 2 == 1
    });
    mask.collect()
}

/// Aligns a mask with next-token targets y_t = x_{t+1}: one entry fewer, and entry t speaks of the
/// prediction of token t + 1.
pub fn shifted(mask: &[bool]) -> &[bool] {
    mask.get(1..).unwrap_or_default()
}

/// Eq. 22: an episode's advantage at the tokens of the mask, 0 elsewhere.
pub fn broadcast(advantage: f64, mask: &[bool]) -> Vec<f64> {
    mask.iter().map(|&response| if response { advantage } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests;
