//! What systemd gets, on a real datagram socket.

use super::*;
use crate::admin::tests::fixture::plan;
use stoatflow_core::Error;

const NOW: (Duration, Timestamp) = (Duration::from_secs(60), Timestamp(1_700_000_000_000));

struct Service {
    socket: UnixDatagram,
    systemd: Systemd,
    status: Status,
    _directory: tempfile::TempDir,
}

impl Service {
    fn new(watchdog: Option<Duration>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            systemd: Systemd::new(path.to_str().unwrap(), watchdog).unwrap(),
            status: Status::new("app", Arc::new(plan()), 1),
            _directory: directory,
        }
    }

    fn received(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
            all.extend(text.lines().map(str::to_owned));
        }
        all
    }

    fn enter(&self, state: Lifecycle) -> Vec<String> {
        assert!(self.status.enter(state, NOW.1));
        self.systemd.entered(&self.status, NOW);
        self.received()
    }

    fn tick(&self) -> Vec<String> {
        self.systemd.tick(&self.status, NOW);
        self.received()
    }
}

const MORE_TIME: &str = "EXTEND_TIMEOUT_USEC=30000000";

#[test]
fn a_service_is_ready_once_and_stops_once() {
    let service = Service::new(None);
    assert_eq!(
        service.enter(Lifecycle::Starting),
        [MORE_TIME, "STATUS=starting"]
    );
    assert_eq!(service.tick(), [MORE_TIME], "the status is the same");
    assert_eq!(
        service.enter(Lifecycle::Restoring),
        [
            MORE_TIME,
            "STATUS=restoring: 0 of 0 stores are restored, 0 of 0 changelog records read"
        ]
    );
    service.status.progress_ms.store(59_000, Relaxed);
    assert_eq!(
        service.enter(Lifecycle::Running),
        [
            "READY=1",
            "STATUS=running: 0 input records committed in 0 commits"
        ]
    );
    assert!(service.tick().is_empty(), "nothing has changed");
    assert_eq!(
        service.enter(Lifecycle::Starting),
        ["STATUS=starting"],
        "a restart in place is no start for systemd"
    );
    service.enter(Lifecycle::Restoring);
    assert!(
        !service
            .enter(Lifecycle::Running)
            .contains(&"READY=1".to_owned())
    );
    assert_eq!(
        service.enter(Lifecycle::Stopping),
        ["STOPPING=1", "STATUS=stopping: it drains and commits"]
    );
    assert_eq!(service.enter(Lifecycle::Stopped), ["STATUS=stopped"]);
}

#[test]
fn the_watchdog_hears_only_from_a_live_application() {
    let service = Service::new(Some(Duration::from_secs(2)));
    assert_eq!(service.systemd.interval(), Duration::from_secs(1));
    let hears = |lines: Vec<String>| lines.contains(&"WATCHDOG=1".to_owned());
    assert!(!hears(service.enter(Lifecycle::Starting)), "only at ticks");
    assert!(hears(service.tick()));
    service.enter(Lifecycle::Restoring);
    service.enter(Lifecycle::Running);
    assert!(hears(service.tick()));
    service.status.stalled.store(true, Relaxed);
    assert!(!hears(service.tick()), "it is stalled");
    service.status.stalled.store(false, Relaxed);
    assert!(hears(service.tick()));
    service
        .status
        .failed(&Error::user("it raised\nWATCHDOG=1\nREADY=1"));
    let failed = service.enter(Lifecycle::Failed);
    assert_eq!(failed[0], "STOPPING=1");
    assert_eq!(failed.len(), 2, "a text can't forge variables: {failed:?}");
    assert!(failed[1].starts_with("STATUS=failed: it raised WATCHDOG=1"));
    assert!(!hears(service.tick()));
}

#[test]
fn what_keeps_it_from_being_ready_is_its_status() {
    let service = Service::new(None);
    service.enter(Lifecycle::Starting);
    service.status.broker_is_silent(Duration::from_secs(50));
    assert!(
        service
            .tick()
            .contains(&"STATUS=starting: the broker has not answered for 10.0 s".to_owned())
    );
}

#[test]
fn a_socket_that_is_gone_or_full_stops_nothing() {
    let service = Service::new(Some(Duration::from_secs(2)));
    service.enter(Lifecycle::Starting);
    // More messages than the socket holds; the test reads none of them.
    for _ in 0..10_000 {
        service.systemd.tick(&service.status, NOW);
    }
    drop(service.socket);
    service.systemd.tick(&service.status, NOW);
    assert!(Systemd::new("@stoatflow-no-listener", None).is_ok());
}
