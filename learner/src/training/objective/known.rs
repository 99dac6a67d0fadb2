//! What is known of a response before it is scored.

/// What is known of a response before the trained policy scores it. Lists have one entry a trained
/// token, in order; tokens that are not trained on (prompts, other speakers) appear nowhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The tag of its prompt: responses with the same tag form a group. Members need not be adjacent.
    pub group: usize,
    /// log-probabilities under the policy that sampled, as reported; each token may come from a
    /// version of its own.
    pub behaviour: Vec<f64>,
    /// log-probabilities under the policy at the start of the step. `None`: the policy has not
    /// moved since, so that the current log-probabilities are these.
    pub proximal: Option<Vec<f64>>,
    /// log-probabilities under the reference policy, for objectives with a KL term against it.
    pub reference: Option<Vec<f64>>,
    /// The advantage: one entry for all tokens, or one for each ([`gae`](super::gae)).
    pub advantage: Vec<f64>,
    /// What its loss is multiplied by; 1 by default.
    pub weight: f64,
    /// Whether the task calls it right, for [`EchoClip`](super::EchoClip).
    pub succeeded: bool,
    /// Ends (exclusive) of its steps, for [`EchoClip`](super::EchoClip); see [`step_ends`](super::step_ends).
    pub step_ends: Vec<usize>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            group: 0,
            behaviour: Vec::new(),
            proximal: None,
            reference: None,
            advantage: Vec::new(),
            weight: 1.0,
            succeeded: false,
            step_ends: Vec::new(),
        }
    }
}
