//! The other end of the socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use echo_protocol::wire::content_id::ContentId;
use serde_bytes::ByteBuf;

use super::PROTOCOL;
use super::connection::{ClientCall, ServerReply};
use super::frame::{self, ServerFrameError};
use crate::programs::language::Language;
use crate::programs::service::JudgeRequest;
use crate::programs::verdict::TestReport;

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens at the socket, or the system refuses to connect.
    #[error("no verification server answers at {path}: {source}; start one with `echo-node verify-server`")]
    Connect {
        /// The path of the socket, as given to [`Client::connect`].
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The connection is of no more use.
    #[error(transparent)]
    Frame(#[from] ServerFrameError),
    /// The server says no.
    #[error("the verification server refuses: {reason}")]
    Refused {
        /// The server's own words: why, and what to do about it.
        reason: String,
    },
    /// The server answered something else.
    #[error("the verification server answered what was not asked; use the same release on both sides")]
    Unexpected,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    languages: Vec<Language>,
    lacks: Vec<String>,
}

impl Client {
    /// Connects to the server at `path`.
    ///
    /// # Errors
    /// When nobody is there, or it does not let this process in.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path);
        let stream = stream.map_err(|source| ClientError::Connect { path: path.into(), source })?;
        let mut client = Self { stream, languages: Vec::new(), lacks: Vec::new() };
        // A server that refuses this process may have closed before it is greeted: what counts
        // is what it said.
        let greeted = client.send(&ClientCall::Hello { protocol: PROTOCOL.into() });
        match client.receive()? {
            ServerReply::Welcome { languages, lacks } => {
                greeted?;
                Ok(Self { languages, lacks, ..client })
            }
            _ => Err(ClientError::Unexpected),
        }
    }

    /// What the server can judge.
    pub fn languages(&self) -> &[Language] {
        &self.languages
    }

    /// What it cannot, each with its mend.
    pub fn lacks(&self) -> &[String] {
        &self.lacks
    }

    /// Those of `ids` that would have to be put.
    ///
    /// # Errors
    /// When the server refuses or is gone.
    pub fn missing(
        &mut self,
        ids: impl IntoIterator<Item = ContentId>,
    ) -> Result<Vec<ContentId>, ClientError> {
        match self.ask(&ClientCall::Missing(ids.into_iter().collect()))? {
            ServerReply::Missing(ids) => Ok(ids),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Puts test data into the server's store.
    ///
    /// # Errors
    /// When the server refuses or is gone.
    pub fn put(&mut self, bytes: &[u8]) -> Result<ContentId, ClientError> {
        match self.ask(&ClientCall::Put(ByteBuf::from(bytes)))? {
            ServerReply::Stored(id) if id.matches(bytes) => Ok(id),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Has something judged. All reports have to be read before anything else is asked; dropping
    /// them before closes the connection.
    ///
    /// # Errors
    /// When the server is gone. A refusal arrives as the first report, an error.
    pub fn judge(&mut self, request: JudgeRequest) -> Result<ClientReports<'_>, ClientError> {
        self.send(&ClientCall::Judge(Box::new(request)))?;
        Ok(ClientReports { client: self, done: false })
    }

    fn ask(&mut self, call: &ClientCall) -> Result<ServerReply, ClientError> {
        self.send(call)?;
        self.receive()
    }

    fn send(&mut self, call: &ClientCall) -> Result<(), ClientError> {
        Ok(frame::write(&mut self.stream, call)?)
    }

    fn receive(&mut self) -> Result<ServerReply, ClientError> {
        let ended = || ServerFrameError::from(io::Error::from(io::ErrorKind::UnexpectedEof));
        let length = frame::read_length(&mut self.stream)?.ok_or_else(ended)?;
        match frame::read_message(&mut self.stream, length)? {
            ServerReply::Refused { reason } => Err(ClientError::Refused { reason }),
            reply => Ok(reply),
        }
    }
}

/// Reports as they arrive.
#[derive(Debug)]
pub struct ClientReports<'a> {
    client: &'a mut Client,
    done: bool,
}

impl Iterator for ClientReports<'_> {
    type Item = Result<TestReport, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let reply = self.client.receive();
        self.done = !matches!(reply, Ok(ServerReply::Report(_)));
        match reply {
            Ok(ServerReply::Report(report)) => Some(Ok(report)),
            Ok(ServerReply::Done) => None,
            Ok(_) => Some(Err(ClientError::Unexpected)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Drop for ClientReports<'_> {
    fn drop(&mut self) {
        if !self.done {
            // The server stops working for who no longer listens.
            let _ = self.client.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
