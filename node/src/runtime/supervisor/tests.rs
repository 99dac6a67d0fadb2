use super::*;
use crate::delivery::outbox::MAX_OUTBOX_GROUPS;
use crate::testing;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;

/// Parts that do nothing but end, or not.
async fn supervisor(
    dir: &std::path::Path,
    session: impl Future<Output = Result<Ending, NodeError>> + Send + 'static,
    worker: impl Future<Output = Result<(), NodeError>> + Send + 'static,
) -> Supervisor {
    let (host, _events) = testing::host(90, Vec::new()).await;
    Supervisor {
        host,
        outbox: Outbox::open(dir, &testing::run_id(), &testing::learner_key().public()).unwrap(),
        node_state: Arc::default(),
        session: tokio::spawn(session),
        worker: tokio::spawn(worker),
        stop_worker: CancellationToken::new(),
        returning: tokio::spawn(async {}),
        services: JoinSet::new(),
    }
}

#[tokio::test]
async fn a_worker_that_runs_out_of_orders_as_the_session_ends_is_no_defect() {
    let dir = tempfile::tempdir().unwrap();
    let session = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(Ending::Rechartered(Box::new(testing::charter())))
    };
    let supervisor = supervisor(dir.path(), session, async { Ok(()) }).await;
    let ended = supervisor.run(&CancellationToken::new()).await.unwrap();
    assert!(matches!(ended, Some(Ending::Rechartered(_))), "{ended:?}");
}

#[tokio::test]
async fn a_stopped_node_does_not_wait_for_what_takes_long() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = supervisor(dir.path(), std::future::pending(), std::future::pending()).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let ended = tokio::time::timeout(STOP_WITHIN * 10, supervisor.run(&stop)).await;
    assert!(matches!(ended, Ok(Ok(None))), "{ended:?}");
}

#[tokio::test]
async fn a_run_that_ends_with_a_full_outbox_is_no_reason_to_warn() {
    let logged = testing::logged();
    let dir = tempfile::tempdir().unwrap();
    let supervisor = supervisor(dir.path(), async { Ok(Ending::RunEnded) }, async { Ok(()) }).await;
    let waiting: Vec<_> = (0..MAX_OUTBOX_GROUPS).map(|order| (OrderCounter(order), vec![0_u8])).collect();
    supervisor.outbox.push(&waiting).unwrap();
    assert!(!supervisor.outbox.has_room(1));

    let (stop, node_state) = (CancellationToken::new(), supervisor.node_state.clone());
    let stopped = async {
        // Nobody takes anything: the node need not wait for that any longer.
        while node_state.facts(UnixMillis(0)).state != NodeActivity::Delivering {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(supervisor.run(&stop), stopped);
    assert!(matches!(ended, Ok(Some(Ending::RunEnded))), "{ended:?}");
    assert_eq!(node_state.facts(UnixMillis(0)).outbox, MAX_OUTBOX_GROUPS);
    let said = logged.lines("the run ended before these groups were needed");
    assert!(said.len() == 1 && said[0].contains("INFO") && said[0].contains("groups=4096"), "{said:?}");
    let warned = logged.lines("WARN").into_iter().filter(|line| line.contains("echo_node"));
    assert_eq!(warned.collect::<Vec<_>>(), [""; 0]);
}
