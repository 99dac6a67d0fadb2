use super::*;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::tests::{manifest, with_deltas};
use crate::wire::rng::Draws;
use proptest::prelude::*;

/// Complete versions that the machine of a [`Party`] keeps.
const KEPT: usize = 3;
const CHUNKS: u8 = 4;

/// Downloads with a disk of whole pieces and a machine that fetches what it is told. Plans and
/// deltas wait until a test lets them go on.
struct Party {
    downloads: Downloads,
    disk: BTreeSet<ContentId>,
    kept: Vec<Arc<Manifest>>,
    /// Drawn when they were asked for, and not delivered yet.
    plans: VecDeque<DownloadPlan>,
    steps: VecDeque<BuildStep>,
    /// What the machine receives, and what is missing of it.
    receives: Option<(Arc<Manifest>, BTreeSet<PieceIndex>)>,
    complete: BTreeSet<PolicyVersion>,
    installed: Vec<u64>,
    deleted: Vec<u64>,
    fetched: u64,
    now: UnixMillis,
}

impl Party {
    fn new() -> Self {
        Self {
            downloads: Downloads::new(KEPT),
            disk: BTreeSet::new(),
            kept: Vec::new(),
            plans: VecDeque::new(),
            steps: VecDeque::new(),
            receives: None,
            complete: BTreeSet::new(),
            installed: Vec::new(),
            deleted: Vec::new(),
            fetched: 0,
            now: UnixMillis(1_000_000),
        }
    }

    fn tell(&mut self, event: DownloadEvent) {
        self.downloads.handle(self.now, event);
        while let Some(action) = self.downloads.poll_action() {
            self.act(action);
        }
    }

    fn announce(&mut self, version: u64) {
        let manifest = if version == 1 { manifest(1, CHUNKS) } else { with_deltas(version, CHUNKS, 100) };
        self.tell(DownloadEvent::Announced(Arc::new(manifest)));
    }

    fn act(&mut self, action: DownloadAction) {
        match action {
            DownloadAction::Keep { manifest, published } => {
                self.kept.push(manifest.clone());
                self.downloads.handle(self.now, DownloadEvent::Kept { manifest, published });
            }
            DownloadAction::Plan(manifests) => {
                let all = |piece: &crate::snapshot::manifest::Piece| BlockMask::all(piece.blocks());
                let held = |piece: &crate::snapshot::manifest::Piece| match self.disk.contains(&piece.id) {
                    true => all(piece),
                    false => BlockMask::EMPTY,
                };
                self.plans.push_back(DownloadPlan::draw(&manifests, held));
            }
            DownloadAction::Fetch(fetch) => {
                let version = fetch.manifest.version;
                if let Some((before, _)) = self.receives.take().filter(|(m, _)| m.version < version) {
                    self.downloads.handle(self.now, DownloadEvent::Forgotten(before.version));
                }
                self.want(fetch.manifest, fetch.wanted.iter().collect());
            }
            DownloadAction::Want { version, pieces } => {
                let manifest = self.kept.iter().rfind(|m| m.version == version).unwrap().clone();
                self.want(manifest, pieces.iter().collect());
            }
            DownloadAction::WantToo { version, piece } => {
                let manifest = self.kept.iter().rfind(|m| m.version == version).unwrap().clone();
                let mut missing = self.receives.take().map(|(_, missing)| missing).unwrap_or_default();
                missing.insert(piece);
                self.want(manifest, missing);
            }
            DownloadAction::Build(step) => self.steps.push_back(step),
            DownloadAction::Install(manifest) => {
                assert!(manifest.chunks.iter().all(|id| self.disk.contains(id)), "installed in part");
                self.installed.push(manifest.version.0);
            }
            DownloadAction::Delete(manifest) => {
                self.kept.retain(|kept| (kept.epoch, kept.version) != (manifest.epoch, manifest.version));
                let named: BTreeSet<_> = self.kept.iter().flat_map(|m| m.ids()).collect();
                manifest.ids().filter(|id| !named.contains(id)).for_each(|id| {
                    self.disk.remove(&id);
                });
                self.deleted.push(manifest.version.0);
            }
            DownloadAction::Gained { .. } | DownloadAction::Publish(_) | DownloadAction::Sweep => {}
        }
    }

    fn want(&mut self, manifest: Arc<Manifest>, mut missing: BTreeSet<PieceIndex>) {
        missing.retain(|piece| manifest.piece(*piece).is_some_and(|p| !self.disk.contains(&p.id)));
        self.receives = Some((manifest, missing));
        self.check_complete();
    }

    fn check_complete(&mut self) {
        if let Some((manifest, _)) = self.receives.take_if(|(_, missing)| missing.is_empty()) {
            self.complete.insert(manifest.version);
            self.downloads.handle(self.now, DownloadEvent::Complete(manifest.version));
            if self.complete.len() > KEPT {
                let oldest = self.complete.pop_first().unwrap();
                self.downloads.handle(self.now, DownloadEvent::Forgotten(oldest));
            }
        }
    }

    /// One missing piece comes; false when nothing is missing.
    fn receive(&mut self) -> bool {
        let Some((manifest, missing)) = &mut self.receives else { return false };
        let Some(index) = missing.pop_first() else { return false };
        let (piece, version) = (manifest.piece(index).unwrap(), manifest.version);
        self.fetched += piece.length;
        self.disk.insert(piece.id);
        self.tell(DownloadEvent::Stored { version, piece: index, whole: true });
        self.check_complete();
        self.tell(DownloadEvent::Forgotten(PolicyVersion(0)));
        true
    }

    fn plan(&mut self) -> bool {
        self.plans.pop_front().map(|plan| self.tell(DownloadEvent::Planned(plan))).is_some()
    }

    fn build(&mut self, helps: bool) -> bool {
        let Some(step) = self.steps.pop_front() else { return false };
        let helped = helps && [step.base, step.delta.id].iter().all(|id| self.disk.contains(id));
        if helped {
            self.disk.insert(step.target.id);
        }
        self.tell(DownloadEvent::Built { step, helped });
        true
    }

    /// Everybody refuses what the machine receives.
    fn refuse(&mut self) {
        if let Some((manifest, _)) = &self.receives {
            let version = manifest.version;
            self.tell(DownloadEvent::Refused(version));
        }
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        self.plan() || self.build(true) || self.receive()
    }

    /// Starts with a version installed.
    fn with(version: u64) -> Self {
        let mut party = Self::new();
        party.announce(version);
        party.settle();
        assert_eq!(party.installed, [version]);
        (party.installed, party.fetched) = (Vec::new(), 0);
        party
    }

    fn receiving(&self) -> Option<u64> {
        self.receives.as_ref().map(|(manifest, _)| manifest.version.0)
    }

    fn lose_patience(&mut self, supply: impl Fn(PolicyVersion, PieceIndex) -> Supply) {
        self.now = self.now.plus(PATIENCE_MS);
        self.downloads.lose_patience(self.now, supply);
        while let Some(action) = self.downloads.poll_action() {
            self.act(action);
        }
    }
}

#[test]
fn who_is_slower_than_publications_installs_one_after_the_other() {
    let mut slow = Party::new();
    slow.announce(1);
    for version in 2..6 {
        assert!(slow.plan() && slow.receive());
        slow.announce(version);
        while slow.installed.last() != Some(&(version - 1)) {
            assert!(slow.step());
        }
    }
    slow.settle();
    assert_eq!(slow.installed, [1, 2, 3, 4, 5]);
    // Of several that were announced meanwhile, the newest.
    let mut slower = Party::with(1);
    slower.announce(2);
    slower.plan();
    assert!(slower.receive());
    (3..6).for_each(|version| slower.announce(version));
    slower.settle();
    assert_eq!(slower.installed, [2, 5]);
}

#[test]
fn what_has_not_begun_gives_way_to_what_is_newer() {
    let mut party = Party::new();
    party.announce(1);
    party.plan();
    party.announce(2);
    party.settle();
    assert_eq!(party.installed, [2]);
}

#[test]
fn what_came_of_a_version_that_nobody_serves_any_more_is_what_the_next_is_made_from() {
    let mut joiner = Party::new();
    joiner.announce(1);
    joiner.plan();
    assert!(joiner.receive() && joiner.receive());
    let before = joiner.fetched;
    (2..=4).for_each(|version| joiner.announce(version));
    joiner.refuse();
    assert!(joiner.plan());
    assert_eq!((joiner.receiving(), joiner.deleted.len()), (Some(2), 0));
    joiner.settle();
    assert_eq!(joiner.installed, [4]);
    // Two chunks of four, and the deltas of three versions for the others.
    assert!(joiner.fetched - before < before + 7 * 100, "{} bytes more", joiner.fetched - before);
    assert_eq!(joiner.deleted, [1]);
}

#[test]
fn pieces_that_come_while_a_plan_is_on_its_way_are_not_waited_for() {
    let mut party = Party::with(1);
    (2..=3).for_each(|version| party.announce(version));
    // The first plan is for 2 alone.
    assert!(party.plan() && party.plan());
    assert_eq!(party.receiving(), Some(2));
    while party.receive() {}
    // A plan is on its way that knows of none of these chunks.
    assert_eq!(party.plans.len(), 1);
    while party.build(true) {}
    party.settle();
    assert_eq!(party.installed, [3]);
}

#[test]
fn deltas_that_nobody_has_are_given_up_for_chunks_that_somebody_has() {
    let mut party = Party::with(1);
    party.announce(2);
    party.plan();
    let delta = |piece: PieceIndex| piece.0 >= u32::from(CHUNKS);
    // Nobody has anything yet.
    for _ in 0..2 * LAST_PATIENCE {
        party.lose_patience(|_, _| Supply::Nowhere);
    }
    assert!(party.receives.as_ref().unwrap().1.iter().all(|piece| delta(*piece)));
    let lucky = PieceIndex(u32::from(CHUNKS));
    let supply = |_, piece: PieceIndex| match delta(piece) && piece != lucky {
        true => Supply::Nowhere,
        false => Supply::Offered,
    };
    // One delta has a holder, which goes on delivering.
    let mut party = Party::with(1);
    party.announce(2);
    party.plan();
    party.lose_patience(supply);
    let left = party.receives.as_ref().unwrap().1.clone();
    assert_eq!(left, [1, 2, 3, 4].map(PieceIndex).into());
    party.settle();
    assert_eq!(party.installed, [2]);
}

#[test]
fn what_is_claimed_and_never_comes_is_given_up_in_the_end() {
    let mut party = Party::with(1);
    party.announce(2);
    party.plan();
    for _ in 1..LAST_PATIENCE {
        party.lose_patience(|_, _| Supply::Offered);
        // Chunks that come are no sign of deltas.
        party.tell(DownloadEvent::Stored { version: PolicyVersion(2), piece: PieceIndex(0), whole: false });
    }
    assert!(party.receives.as_ref().unwrap().1.contains(&PieceIndex(4)));
    party.lose_patience(|_, _| Supply::Offered);
    assert_eq!(party.receives.as_ref().unwrap().1, [0, 1, 2, 3].map(PieceIndex).into());
    party.settle();
    assert_eq!(party.installed, [2]);
}

#[test]
fn a_stone_that_nobody_serves_is_done_without() {
    for refused in [false, true] {
        let mut party = Party::with(1);
        (2..=3).for_each(|version| party.announce(version));
        while party.plan() {}
        assert_eq!(party.receiving(), Some(2));
        if refused {
            party.refuse();
        } else {
            let chunks = |_, piece: PieceIndex| match piece.0 < u32::from(CHUNKS) {
                true => Supply::Offered,
                false => Supply::Nowhere,
            };
            party.lose_patience(chunks);
        }
        party.plan();
        assert_eq!(party.receiving(), Some(3));
        party.settle();
        assert_eq!(party.installed, [3]);
    }
}

#[test]
fn an_older_manifest_that_comes_late_shows_the_cheap_way() {
    let mut party = Party::with(1);
    party.announce(3);
    party.plan();
    assert!(party.receive());
    party.announce(2);
    party.settle();
    assert_eq!(party.installed, [3]);
    assert!(party.fetched < 2 * (16 << 10), "{} bytes", party.fetched);
}

#[test]
fn a_chunk_that_is_damaged_before_it_is_installed_comes_again() {
    let mut party = Party::with(1);
    let id = party.kept[0].chunks[2];
    party.disk.remove(&id);
    party.tell(DownloadEvent::Damaged { version: PolicyVersion(1), piece: PieceIndex(2) });
    party.settle();
    assert_eq!((party.installed, party.fetched), (vec![1], 16 << 10));
}

#[test]
fn manifests_that_are_kept_in_another_order_than_they_came_are_all_planned_with() {
    let mut party = Party::with(1);
    let manifests = [2, 3].map(|version| Arc::new(with_deltas(version, CHUNKS, 100)));
    for manifest in &manifests {
        party.downloads.handle(party.now, DownloadEvent::Announced(manifest.clone()));
        assert!(matches!(party.downloads.poll_action(), Some(DownloadAction::Keep { .. })));
    }
    party.kept.extend(manifests.clone());
    let [two, three] = manifests.map(|manifest| DownloadEvent::Kept { manifest, published: false });
    party.tell(three);
    assert!(party.plans.is_empty());
    party.tell(two);
    assert!(party.plan());
    assert_eq!(party.receiving(), Some(2));
}

proptest! {
    /// Whatever happens in whatever order, versions are installed whole and in order, and the
    /// newest in the end.
    #[test]
    fn the_newest_version_is_installed_in_the_end(seed in any::<[u8; 32]>()) {
        let mut draws = Draws::new(seed);
        let mut party = Party::new();
        let newest = 1 + draws.below(12);
        let mut hidden: BTreeSet<u64> = BTreeSet::new();
        let mut next = 1;
        while next <= newest {
            match draws.below(12) {
                0 => {
                    // A manifest may be missed; the newest is not.
                    if next == newest || draws.below(4) > 0 { party.announce(next) } else { hidden.insert(next); }
                    next += 1;
                }
                1 => party.refuse(),
                2 if !hidden.is_empty() => {
                    let late = hidden.pop_first().unwrap();
                    party.announce(late);
                }
                3 => {
                    let kind = draws.below(3);
                    party.lose_patience(|_, piece| match (u64::from(piece.0) + kind) % 3 {
                        0 => Supply::Offered,
                        _ => Supply::Nowhere,
                    });
                }
                4 | 5 => { party.plan(); }
                6 | 7 => { let helps = draws.below(5) > 0; party.build(helps); }
                _ => { party.receive(); }
            }
        }
        party.settle();
        prop_assert!(party.installed.is_sorted_by(|a, b| a < b), "{:?}", party.installed);
        prop_assert_eq!(party.installed.last(), Some(&newest));
        prop_assert!(party.kept.len() <= KEPT + MORE_MANIFESTS);
    }
}

#[test]
fn publications_may_be_kept_in_either_order() {
    let mut downloads = Downloads::new(KEPT);
    let now = UnixMillis(1_000_000);
    let publication = |version: u64| Arc::new(with_deltas(version, CHUNKS, 100));
    for version in [3, 2] {
        downloads.handle(now, DownloadEvent::Kept { manifest: publication(version), published: true });
    }
    let published = std::iter::from_fn(|| downloads.poll_action()).map(|action| match action {
        DownloadAction::Publish(manifest) => manifest.version.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(published.collect::<Vec<_>>(), [3, 2]);
    downloads.handle(now, DownloadEvent::Published(publication(1)));
    assert!(matches!(downloads.poll_action(), Some(DownloadAction::Keep { published: true, .. })));
}

/// The learner began anew: it publishes `version` again, whole, and without the deltas that it had before.
fn anew(party: &mut Party, version: u64) {
    party.downloads.forget();
    let again =
        Manifest { epoch: Epoch(2), base: None, deltas: Vec::new(), ..with_deltas(version, CHUNKS, 100) };
    party.receives = None;
    party.tell(DownloadEvent::Announced(Arc::new(again)));
}

#[test]
fn a_version_that_is_published_anew_is_installed_though_it_was_under_way() {
    let mut party = Party::with(1);
    party.announce(2);
    assert!(party.plan() && party.receive());
    anew(&mut party, 2);
    party.settle();
    assert_eq!(party.installed, [2]);
}

#[test]
fn a_learner_that_was_put_back_is_followed_back_and_costs_nothing_that_is_on_disk() {
    let mut party = Party::with(1);
    party.announce(2);
    party.settle();
    party.announce(3);
    party.settle();
    assert_eq!(party.installed, [2, 3]);
    let before = party.fetched;
    anew(&mut party, 2);
    party.settle();
    assert_eq!((party.installed.as_slice(), party.fetched), ([2, 3, 2].as_slice(), before));
}

#[test]
fn a_manifest_of_the_epoch_before_that_is_kept_late_changes_nothing() {
    let mut party = Party::with(1);
    let late = Arc::new(with_deltas(5, CHUNKS, 100));
    party.downloads.handle(party.now, DownloadEvent::Announced(late.clone()));
    assert!(matches!(party.downloads.poll_action(), Some(DownloadAction::Keep { .. })));
    anew(&mut party, 2);
    party.tell(DownloadEvent::Kept { manifest: late, published: false });
    party.settle();
    assert_eq!((party.installed.last(), party.deleted.contains(&5)), (Some(&2), true));
}

#[test]
fn a_target_that_has_stalled_gives_way_to_a_newer_one() {
    let mut party = Party::with(1);
    party.announce(2);
    assert!(party.plan() && party.receive());
    party.announce(4);
    let nobody = |_, _| Supply::Nowhere;
    for _ in 0..STALLED_MS / PATIENCE_MS {
        party.lose_patience(nobody);
        assert_eq!(party.receiving(), Some(2));
    }
    party.lose_patience(nobody);
    party.settle();
    assert_eq!(party.installed, [4]);
}
