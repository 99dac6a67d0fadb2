//! Groups on their way in: read, check, judge, make durable, answer.
//!
//! A task for each node's stream reads, verifies and judges one group at a time, so a node is slowed down by its own groups. What
//! passes goes to one writer, which makes all that wait durable with a single flush.

use super::Shared;
use crate::admission::{Admitted, Rejection};
use echo_protocol::codec;
use echo_protocol::identity::PublicKey;
use echo_protocol::net::peer::key_of_peer;
use echo_protocol::net::{FrameError, IncomingStreams, Stream, read_frame, write_frame};
use echo_protocol::submission::{Answer, MAX_ANSWER_BYTES};
use futures::AsyncWriteExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;

/// Judged groups that wait for the writer; also the most that one flush covers.
const WRITER_QUEUE: usize = 256;
/// Groups that are verified and judged at once, over all nodes.
const JUDGES: usize = 32;

type Pending = (Admitted, oneshot::Sender<Answer>);

/// Accepts streams until the host stops. A node has one stream; a new one replaces the old.
pub(super) async fn accept(shared: Arc<Shared>, mut incoming: IncomingStreams) {
    let (writer, queue) = mpsc::channel(WRITER_QUEUE);
    let writing = shared.clone();
    std::thread::spawn(move || write(&writing, queue));
    let judges = Arc::new(Semaphore::new(JUDGES));
    let mut streams: BTreeMap<PublicKey, AbortHandle> = BTreeMap::new();
    loop {
        let next = tokio::select! {
            next = incoming.next() => next,
            () = writer.closed() => None,
        };
        let Some((peer, stream)) = next else { return };
        let Some(node) = key_of_peer(&peer) else { continue };
        streams.retain(|_, task| !task.is_finished());
        let (shared, writer, judges) = (shared.clone(), writer.clone(), judges.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = receive(&shared, node, stream, writer, judges).await {
                tracing::debug!(node = %node.short(), error, "a node's stream ended");
            }
        });
        if let Some(old) = streams.insert(node, task.abort_handle()) {
            old.abort();
        }
    }
}

async fn receive(
    shared: &Arc<Shared>,
    node: PublicKey,
    mut stream: Stream,
    writer: mpsc::Sender<Pending>,
    judges: Arc<Semaphore>,
) -> Result<(), String> {
    loop {
        let answer = match read_frame(&mut stream, shared.admission.longest_frame()).await {
            Ok(Some(bytes)) => {
                let place = judges.clone().acquire_owned().await.map_err(|e| e.to_string())?;
                let judging = shared.clone();
                let judged = tokio::task::spawn_blocking(move || {
                    let judged = judge(&judging, &node, &bytes);
                    drop(place);
                    judged
                });
                match judged.await.map_err(|e| e.to_string())? {
                    Ok(admitted) => {
                        let (reply, answer) = oneshot::channel();
                        writer.send((admitted, reply)).await.map_err(|e| e.to_string())?;
                        answer.await.map_err(|e| e.to_string())?
                    }
                    Err(answer) => answer,
                }
            }
            Ok(None) => return Ok(()),
            Err(FrameError::TooLarge { len, .. }) => {
                // What follows cannot be found again: say why, and close.
                if let Err(refusal) = shared.admission.check_frame(len) {
                    let answer = shared.desk().refuse(&node, refusal);
                    send(&mut stream, &answer).await?;
                }
                return stream.close().await.map_err(|e| e.to_string());
            }
            Err(error) => return Err(error.to_string()),
        };
        send(&mut stream, &answer).await?;
    }
}

async fn send(stream: &mut Stream, answer: &Answer) -> Result<(), String> {
    let bytes = codec::encode(answer, MAX_ANSWER_BYTES).map_err(|e| e.to_string())?;
    write_frame(stream, &bytes, MAX_ANSWER_BYTES).await.map_err(|e| e.to_string())
}

/// All stages but the last; an `Err` is the answer to the node.
fn judge(shared: &Shared, node: &PublicKey, bytes: &[u8]) -> Result<Admitted, Answer> {
    let admission = &shared.admission;
    let checked = admission.precheck(bytes, node).map_err(|refusal| shared.desk().refuse(node, refusal))?;
    let counter = checked.group().counter;
    let screened = shared.desk().screen(admission, checked.group());
    screened.and_then(|()| admission.judge(checked)).map_err(|rejection| match rejection {
        Rejection::Refused(refusal) => {
            tracing::info!(node = %node.short(), order = %counter, %refusal, "refused a group");
            shared.desk().refuse(node, refusal)
        }
        retry @ Rejection::Retry(_) => {
            tracing::debug!(node = %node.short(), order = %counter, %retry, "put a group off");
            retry.answer(counter)
        }
    })
}

/// Takes what waits, makes it durable with one flush, and answers.
fn write(shared: &Shared, mut queue: mpsc::Receiver<Pending>) {
    while let Some(first) = queue.blocking_recv() {
        let mut waiting = vec![first];
        while waiting.len() < WRITER_QUEUE
            && let Ok(next) = queue.try_recv()
        {
            waiting.push(next);
        }
        let (groups, replies): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        let answers = shared.desk().admit(&shared.admission, groups);
        shared.groups_arrived();
        for (reply, answer) in replies.into_iter().zip(answers) {
            // A node that has gone sends its group again, and is told that it is a duplicate.
            let _ = reply.send(answer);
        }
    }
}
