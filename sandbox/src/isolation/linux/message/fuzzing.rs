//! Messages with any content, over a real socket.

use std::fmt::Debug;
use std::os::fd::{AsFd, BorrowedFd};

use super::*;

/// The longest body that is sent: the socket has to hold it, as nobody reads meanwhile.
const MAX_BODY: usize = 32 << 10;

/// Reads a message of this kind with this body as a zygote and as its host do, and panics unless
/// what was read arrives a second time as it was.
pub(crate) fn zygote_message(kind: u8, body: &[u8]) {
    let (near, far) = UnixStream::pair().expect("sockets can be made");
    let body = &body[..body.len().min(MAX_BODY)];
    let fds: &[BorrowedFd<'_>] = match kind {
        RUN => &[near.as_fd(); 3],
        WORK => &[near.as_fd()],
        _ => &[],
    };
    let send = || channel::send(&near, kind, body, fds).expect("the socket holds the message");

    send();
    if let Ok(Some(order)) = ZygoteCommand::receive(&far) {
        match &order {
            ZygoteCommand::Setup(setup) => send_setup(&near, setup),
            ZygoteCommand::Run(task, fds) => {
                send_task(&near, task, [fds[0].as_fd(), fds[1].as_fd(), fds[2].as_fd()])
            }
            ZygoteCommand::Kill => send_kill(&near),
        }
        .expect("the socket holds what it held before");
        same(
            &content_of_order(&order),
            ZygoteCommand::receive(&far).map(|order| order.map(|it| content_of_order(&it))),
        );
    }

    send();
    if let Ok(Some(said)) = ZygoteReply::receive(&far) {
        answer(&near, &said).expect("the socket holds what it held before");
        same(
            &content_of_answer(&said),
            ZygoteReply::receive(&far).map(|said| said.map(|it| content_of_answer(&it))),
        );
    }
}

fn same<T: PartialEq + Debug>(sent: &T, received: io::Result<Option<T>>) {
    assert_eq!(received.expect("what was read once is read again").as_ref(), Some(sent));
}

/// All of an order but its descriptors, which have other numbers each time.
fn content_of_order(order: &ZygoteCommand) -> (Option<ZygoteSetup>, Option<PreparedJob>) {
    match order {
        ZygoteCommand::Setup(setup) => (Some(setup.clone()), None),
        ZygoteCommand::Run(task, _) => (None, Some(task.clone())),
        ZygoteCommand::Kill => (None, None),
    }
}

/// All of an answer but its descriptor.
fn content_of_answer(answer: &ZygoteReply) -> String {
    match answer {
        ZygoteReply::Work(_) => "work".to_owned(),
        other => format!("{other:?}"),
    }
}
