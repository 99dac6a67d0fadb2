//! The line that tells a keeper how the node is doing.

/// What has happened since the node started.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    arrivals: u64,
    departures: u64,
    refused: u64,
}

impl Status {
    pub(super) fn connected(&mut self) {
        self.arrivals += 1;
    }

    pub(super) fn disconnected(&mut self) {
        self.departures += 1;
    }

    pub(super) fn refused(&mut self) {
        self.refused += 1;
    }

    pub(super) fn line(&self, peers: usize) -> String {
        let Self { arrivals, departures, refused } = self;
        format!("{peers} peers connected ({arrivals} came, {departures} left), {refused} requests refused")
    }
}
