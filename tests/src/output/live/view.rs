//! A state of a run, and how it reads.

/// What is known of a run at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveState {
    /// Updates that the run has made.
    pub update: u64,
    /// Updates that the run makes in all.
    pub updates: u64,
    /// Mean reward of recent updates.
    pub reward: Option<f64>,
    /// Accuracy on held-out orders, as last measured.
    pub accuracy: Option<f64>,
    /// The volunteers, in a fixed order.
    pub nodes: Vec<NodeView>,
    /// Median time from publication to installation, in milliseconds.
    pub t_bcast_ms: Option<f64>,
    /// Trajectories trained on, by staleness in updates: the entry at index 2 counts those that
    /// were two updates old.
    pub staleness: Vec<u64>,
}

/// What is known of a volunteer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Its name, which is also that of its log.
    pub name: String,
    /// The policy version that it generates under, once it has installed one.
    pub version: Option<u64>,
    /// Anything out of the ordinary, such as `killed`.
    pub remark: Option<String>,
}

/// The widest bar of a histogram, in characters.
const BAR_WIDTH: u64 = 12;
/// Bins of a histogram that are shown; what is staler is added to the last.
const MAX_BINS: usize = 9;

impl LiveState {
    /// Reward and accuracy as text, with a dash for what is not known.
    pub(super) fn scores(&self) -> String {
        format!("reward {}  accuracy {}", share(self.reward), share(self.accuracy))
    }

    /// The lines of the block below its progress bar.
    pub(super) fn details(&self) -> [String; 3] {
        [
            format!("versions   {}", self.versions()),
            format!("T_bcast    {}", self.t_bcast()),
            format!("staleness  {}", histogram(&self.staleness, |share| "#".repeat(share as usize))),
        ]
    }

    /// Everything in one line.
    pub(super) fn line(&self) -> String {
        let Self { update, updates, .. } = self;
        let staleness = histogram(&self.staleness, |_| String::new());
        format!(
            "update {update}/{updates}  {}  versions {}  T_bcast {}  staleness {staleness}",
            self.scores(),
            self.versions(),
            self.t_bcast(),
        )
    }

    fn versions(&self) -> String {
        let node = |NodeView { name, version, remark }: &NodeView| match (remark, version) {
            (Some(remark), _) => format!("{name} {remark}"),
            (None, Some(version)) => format!("{name} v{version}"),
            (None, None) => format!("{name} -"),
        };
        self.nodes.iter().map(node).collect::<Vec<_>>().join("  ")
    }

    fn t_bcast(&self) -> String {
        self.t_bcast_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0} ms"))
    }
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// `0: ## 12%  1: ### 88%`; `bar` draws a length of up to [`BAR_WIDTH`].
fn histogram(counts: &[u64], bar: impl Fn(u64) -> String) -> String {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return "-".to_owned();
    }
    let (shown, rest) = counts.split_at(counts.len().min(MAX_BINS));
    let mut bins = shown.to_vec();
    if let Some(last) = bins.last_mut() {
        *last += rest.iter().sum::<u64>();
    }
    let part = |count: u64, whole: u64| (count as f64 / total as f64 * whole as f64).round() as u64;
    let bin = |(lag, &count): (usize, &u64)| {
        let more = if lag + 1 == bins.len() && !rest.is_empty() { "+" } else { "" };
        let words = [format!("{lag}{more}:"), bar(part(count, BAR_WIDTH)), format!("{}%", part(count, 100))];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    bins.iter().enumerate().map(bin).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, version: Option<u64>, remark: Option<&str>) -> NodeView {
        NodeView { name: name.into(), version, remark: remark.map(str::to_owned) }
    }

    #[test]
    fn a_state_reads_in_one_line() {
        let state = LiveState {
            update: 12,
            updates: 500,
            reward: Some(0.41234),
            accuracy: None,
            nodes: vec![
                node("node-1", Some(10), None),
                node("node-2", Some(8), Some("killed")),
                node("node-3", None, None),
            ],
            t_bcast_ms: Some(45.4),
            staleness: vec![1, 3],
        };
        assert_eq!(
            state.line(),
            "update 12/500  reward 0.412  accuracy -  versions node-1 v10  node-2 killed  node-3 -  \
             T_bcast 45 ms  staleness 0: 25%  1: 75%"
        );
        assert_eq!(state.details()[2], "staleness  0: ### 25%  1: ######### 75%");
        assert!(LiveState::default().line().ends_with("T_bcast -  staleness -"));
    }

    #[test]
    fn a_long_histogram_is_cut_and_keeps_its_sum() {
        let text = histogram(&[1; 20], |_| String::new());
        assert!(text.starts_with("0: 5%") && text.ends_with("8+: 60%"), "{text}");
    }
}
