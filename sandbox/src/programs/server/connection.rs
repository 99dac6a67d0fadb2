//! What is asked over a connection, and what is answered.

use std::io;
use std::os::unix::net::UnixStream;

use echo_protocol::wire::content_id::ContentId;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::frame::{self, MAX_PUT_BYTES, ServerFrameError};
use super::{IDLE, PATIENCE, PROTOCOL};
use crate::programs::language::Language;
use crate::programs::service::{ClientId, JudgeRequest, Service};
use crate::programs::suite::MAX_TESTS;
use crate::programs::verdict::TestReport;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCall {
    /// Opens a connection: the first call, answered by [`ServerReply::Welcome`].
    Hello {
        /// The protocol that the client speaks, [`PROTOCOL`]; the server refuses any other.
        protocol: String,
    },
    /// Which of these test data would have to be put: at most twice [`MAX_TESTS`].
    Missing(Vec<ContentId>),
    /// Keeps test data, at most [`MAX_PUT_BYTES`].
    Put(ByteBuf),
    /// Judges a request: any number of [`ServerReply::Report`], then [`ServerReply::Done`].
    Judge(Box<JudgeRequest>),
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerReply {
    /// Answers `Hello`: what this server can judge.
    Welcome {
        /// What can be judged here.
        languages: Vec<Language>,
        /// What cannot, each with its mend.
        lacks: Vec<String>,
    },
    /// To `Missing`: what is not there.
    Missing(Vec<ContentId>),
    /// To `Put`: under which name it is kept.
    Stored(ContentId),
    /// To `Judge`: one of the reports.
    Report(TestReport),
    /// To `Judge`: all reports were sent.
    Done,
    /// To anything: it was not done. The connection stays open unless it was the first call, or not
    /// a call at all.
    Refused {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// Answers calls until the client goes, or does not keep to the protocol.
pub(super) fn serve(service: &Service, client: ClientId, stream: &mut UnixStream) {
    if let Err(ServerFrameError::Codec(error)) = talk(service, client, stream) {
        // Whoever sent that may still listen.
        let _ = frame::write(stream, &ServerReply::Refused { reason: format!("that is no call: {error}") });
    }
}

fn talk(service: &Service, client: ClientId, stream: &mut UnixStream) -> Result<(), ServerFrameError> {
    stream.set_write_timeout(Some(PATIENCE))?;
    match next(stream)? {
        Some(ClientCall::Hello { protocol }) if protocol == PROTOCOL => {
            frame::write(stream, &welcome(service))?
        }
        _ => {
            let reason = format!("this server speaks {PROTOCOL}; use the same release on both sides");
            return frame::write(stream, &ServerReply::Refused { reason });
        }
    }
    while let Some(call) = next(stream)? {
        let store = service.store();
        let refused = |error: &dyn std::error::Error| ServerReply::Refused { reason: error.to_string() };
        let reply = match call {
            ClientCall::Hello { .. } => welcome(service),
            ClientCall::Missing(ids) if ids.len() > 2 * MAX_TESTS => {
                ServerReply::Refused { reason: format!("ask for at most {} names at once", 2 * MAX_TESTS) }
            }
            ClientCall::Missing(ids) => ServerReply::Missing(store.missing(ids)),
            ClientCall::Put(bytes) if bytes.len() > MAX_PUT_BYTES => ServerReply::Refused {
                reason: format!("put at most {MAX_PUT_BYTES} bytes at once; split the test"),
            },
            ClientCall::Put(bytes) => {
                store.put(&bytes).map_or_else(|error| refused(&error), ServerReply::Stored)
            }
            ClientCall::Judge(request) => match service.submit(client, *request) {
                Ok(reports) => {
                    for report in reports {
                        frame::write(stream, &ServerReply::Report(report))?;
                    }
                    ServerReply::Done
                }
                Err(error) => refused(&error),
            },
        };
        frame::write(stream, &reply)?;
    }
    Ok(())
}

/// The next call; `None` when the client has gone or slept too long.
fn next(stream: &mut UnixStream) -> Result<Option<ClientCall>, ServerFrameError> {
    stream.set_read_timeout(Some(IDLE))?;
    let length = match frame::read_length(stream) {
        Err(ServerFrameError::Connection(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            return Ok(None);
        }
        length => length?,
    };
    let Some(length) = length else { return Ok(None) };
    stream.set_read_timeout(Some(PATIENCE))?;
    frame::read_message(stream, length).map(Some)
}

fn welcome(service: &Service) -> ServerReply {
    let tools = service.judge().tools();
    let lacks = tools.lacks().iter().map(|(_, lack)| format!("{}: {}", lack.what, lack.mend));
    ServerReply::Welcome { languages: tools.languages().collect(), lacks: lacks.collect() }
}
