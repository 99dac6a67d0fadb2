//! A node that serves rotten blocks: it joins like any other, claims to hold every version at once,
//! and answers whatever it is asked for with noise of the right length.

use crate::broadcast::site::links::seed_of;
use crate::harness::liar::{LearnerConnection, enter, say};
use echo_protocol::net::snapshots::frames;
use echo_protocol::net::snapshots::frames::{LEAF_BYTES, MAX_NEWS, PullMessage, ServeMessage};
use echo_protocol::net::{Stream, protocol_names};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::blocks::{BlockMask, block_count, block_range};
use echo_protocol::snapshot::manifest::{Manifest, Piece, PieceIndex};
use echo_protocol::wire::identity::NodeKey;
use std::path::PathBuf;
use std::time::Duration;

/// Consumers that are lied to at once.
const MAX_CONSUMERS: usize = 64;
/// The pause before the manifest is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

/// A node that lies.
#[derive(Clone, Debug)]
pub struct RottenNode {
    /// The signed peer list.
    pub list: PathBuf,
    /// The multiaddresses on which it listens.
    pub listen: Vec<String>,
    /// Which of several it is.
    pub number: usize,
}

impl RottenNode {
    /// Its identity, derived from its number.
    #[must_use]
    pub fn key(&self) -> NodeKey {
        NodeKey::from_secret(seed_of(self.number as u64, "rotten"))
    }

    /// Joins the first run of the list and lies until it is ended.
    ///
    /// # Errors
    /// When it cannot join.
    pub async fn run(self) -> anyhow::Result<()> {
        let secret = self.key().secret();
        let (host, learner, mut tasks) =
            enter(&self.list, secret, &self.listen, "echo-lab rotten", true).await?;
        let mut consumers = host.accept(protocol_names::CHUNKS)?;
        learner.beat().await?;
        tasks.spawn(learner.clone().stay());
        while let Some((_, stream)) = consumers.next().await {
            if tasks.len() < MAX_CONSUMERS {
                let learner = learner.clone();
                tasks.spawn(async move {
                    if let Err(error) = lie(stream, &learner).await {
                        tracing::debug!(%error, "a consumer is gone");
                    }
                });
            }
            while tasks.try_join_next().is_some() {}
        }
        Ok(())
    }
}

async fn lie(stream: Stream, learner: &LearnerConnection) -> anyhow::Result<()> {
    use futures::AsyncReadExt as _;
    let (mut reading, mut writing) = stream.split();
    let hello = frames::read::<PullMessage>(&mut reading).await?;
    let Some((PullMessage::Hello { version, .. }, _)) = hello else { return Ok(()) };
    let manifest = manifest(learner, version).await?;
    let pieces = (0..manifest.pieces()).map(PieceIndex);
    let all = pieces.filter_map(|index| {
        let Piece { length, .. } = manifest.piece(index)?;
        Some((index, BlockMask::all(block_count(length))))
    });
    for news in all.collect::<Vec<_>>().chunks(MAX_NEWS) {
        say(&mut writing, &ServeMessage::Have { news: news.to_vec() }, &[]).await?;
    }
    while let Some((ask, _)) = frames::read::<PullMessage>(&mut reading).await? {
        let PullMessage::Request { piece, blocks, tree } = ask else { continue };
        let Some(Piece { length, .. }) = manifest.piece(piece) else { continue };
        for (count, block) in blocks.iter().enumerate() {
            let leaves = if tree && count == 0 && block_count(length) > 1 { block_count(length) } else { 0 };
            let range = block_range(length, block);
            let noise = leaves as usize * LEAF_BYTES + (range.end - range.start) as usize;
            let answer = ServeMessage::Block { piece, block, leaves };
            say(&mut writing, &answer, &vec![0x5a; noise]).await?;
        }
    }
    Ok(())
}

async fn manifest(learner: &LearnerConnection, version: PolicyVersion) -> anyhow::Result<Manifest> {
    loop {
        let manifest = learner.manifest().await?.open()?;
        if manifest.version >= version {
            return Ok(manifest);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
