//! A broker that can't be reached doesn't delay others.

use super::BrokerLink;
use crate::kafka::native::NativeConfig;
use crate::kafka::native::net::address::BrokerAddress;
use crate::kafka::native::net::cluster::Cluster;
use crate::kafka::native::net::security::{ClientContext, resolve};
use crate::kafka::native::net::wait;
use crate::kafka::native::tests::faults::FaultyBroker;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use std::io::{self, copy};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use stoatflow_core::{Clock, SystemClock};

/// A port that never accepts a connection: its backlog is full.
struct BlackHole {
    port: u16,
    _held: (OwnedFd, TcpStream),
}

impl BlackHole {
    fn new() -> Self {
        let held = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        listen(&held, 0).unwrap();
        let listener = TcpListener::from(held.try_clone().unwrap());
        let place = listener.local_addr().unwrap();
        let first = TcpStream::connect(place).unwrap();
        Self {
            port: place.port(),
            _held: (held, first),
        }
    }
}

/// Forwards one connection from IPv6's loopback. `None` where the machine has none.
fn from_ipv6(to: u16) -> Option<u16> {
    let listener = TcpListener::bind("[::1]:0").ok()?;
    let port = listener.local_addr().unwrap().port();
    std::thread::Builder::new()
        .spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let broker = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| copy(&mut &client, &mut &broker));
                let _ended = copy(&mut &broker, &mut &client);
            });
        })
        .unwrap();
    Some(port)
}

fn at(host: &str, port: u16) -> BrokerAddress {
    BrokerAddress {
        host: host.to_owned(),
        port,
    }
}

fn context(resolve: fn(&str, u16) -> io::Result<Vec<SocketAddr>>) -> Arc<ClientContext> {
    Arc::new(ClientContext {
        resolve,
        ..ClientContext::plaintext("test")
    })
}

/// Opens the link without blocking, again until it is connected.
fn connect(link: &mut BrokerLink, to: &BrokerAddress, by: &Arc<ClientContext>) {
    let clock = by.stopwatch();
    loop {
        match link.open(to, by, &clock, (Duration::ZERO, 0)).map(drop) {
            Ok(()) => return,
            Err(why) if clock.elapsed() > LONG => panic!("{why}"),
            Err(_) => wait(
                &mut link.poll_fd().into_iter().collect::<Vec<_>>(),
                Duration::from_millis(50),
            ),
        }
    }
}

/// Longer than a thread waits for a CPU on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_silent_broker_is_not_waited_for() {
    let (hole, broker) = (BlackHole::new(), FaultyBroker::start(1, 0, true));
    let by = context(resolve);
    let (to, clock) = (at("127.0.0.1", hole.port), by.stopwatch());
    // A link that had waited would have failed. A busy machine may suspend this thread for that long, so
    // several are tried.
    let silent = (0..5).find_map(|_| {
        let mut link = BrokerLink::default();
        let why = link.open(&to, &by, &clock, (Duration::ZERO, 0)).map(drop);
        why.unwrap_err().leaves_connection().then_some(link)
    });
    let silent = silent.expect("the link waited for a silent broker");
    connect(
        &mut BrokerLink::default(),
        &at("127.0.0.1", broker.port),
        &by,
    );
    assert!(silent.is_connecting(), "it is still tried");
}

#[test]
fn a_name_that_is_looked_up_for_long_is_not_waited_for() {
    static IS_KNOWN: AtomicBool = AtomicBool::new(false);
    /// Blocks until it is released, or so long that a link which waited for it fails the test.
    #[allow(clippy::disallowed_methods)] // a slow resolver
    fn slow(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let step = LONG / 1_000;
        for _ in (0..1_000).take_while(|_| !IS_KNOWN.load(SeqCst)) {
            std::thread::sleep(step);
        }
        resolve(host, port)
    }
    let broker = FaultyBroker::start(2, 0, true);
    let (to, by) = (at("127.0.0.1", broker.port), context(slow));
    let (mut link, clock) = (BrokerLink::default(), by.stopwatch());
    for _ in 0..3 {
        let why = link.open(&to, &by, &clock, (Duration::ZERO, 0)).map(drop);
        assert!(why.unwrap_err().leaves_connection());
    }
    IS_KNOWN.store(true, SeqCst);
    connect(&mut link, &to, &by);
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    fn both(_: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)),
            SocketAddr::from(([127, 0, 0, 2], port)),
            SocketAddr::from(([127, 0, 0, 1], port)),
        ])
    }
    let broker = FaultyBroker::start(3, 0, true);
    let to = at("several.example", broker.port);
    connect(&mut BrokerLink::default(), &to, &context(both));
}

#[test]
fn ipv6_is_spoken() {
    let broker = FaultyBroker::start(4, 0, true);
    if let Some(port) = from_ipv6(broker.port) {
        connect(
            &mut BrokerLink::default(),
            &at("::1", port),
            &context(resolve),
        );
    }
}

#[test]
fn the_next_address_of_the_list_is_asked_beside_a_silent_one() {
    let (hole, broker) = (BlackHole::new(), FaultyBroker::start(5, 0, true));
    let bootstrap = format!("127.0.0.1:{},127.0.0.1:{}", hole.port, broker.port);
    let mut cluster = Cluster::new(&NativeConfig::plaintext(&bootstrap));
    let clock = SystemClock::new();
    let answer = cluster.metadata(&[], 2 * LONG).unwrap();
    assert!(!answer.brokers.is_empty());
    assert!(clock.monotonic() < LONG, "{:?}", clock.monotonic());
}

/// The error of a request to a broker that advertises this address, after a while.
fn error_of_advertised(host: &'static str, port: u16) -> crate::kafka::native::ConnectionError {
    let broker = FaultyBroker::start(6, 0, true);
    broker.kept.lock().advertised = (host, port.into());
    let bootstrap = format!("127.0.0.1:{}", broker.port);
    let mut cluster = Cluster::new(&NativeConfig::plaintext(&bootstrap));
    let answer = cluster.metadata(&[], LONG).unwrap();
    let node = answer.brokers[0].node_id.0;
    let mut last = None;
    // The later ones fail in the pause between two attempts.
    for _ in 0..3 {
        last = cluster.control(node, LONG).err();
    }
    let why = last.expect("it can't be reached");
    assert_eq!(
        cluster.data(node).err().map(|why| why.is_advertised()),
        Some(true)
    );
    why
}

#[test]
fn an_advertised_address_that_is_unreachable_is_named() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    for host in ["127.0.0.1", "there-is-none.invalid"] {
        let why = error_of_advertised(host, port);
        assert!(why.is_advertised() && !why.is_final(), "{why}");
        let expected = format!("advertises the address {host}:{port}");
        assert!(why.to_string().contains(&expected), "{why}");
        assert!(
            why.hint().unwrap().contains("advertised.listeners"),
            "{why:?}"
        );
        let error = crate::kafka::native::unreachable("b:1", "making topics", &why);
        assert_eq!(error.kind(), stoatflow_core::ErrorKind::Unavailable);
        let said = error.to_string();
        assert!(said.contains(&expected) && !said.contains("b:1"), "{said}");
    }
}
