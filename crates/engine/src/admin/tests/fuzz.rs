//! Damaged requests get an answer or a closed connection, and the port continues.

use super::fixture::Port;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use stoatflow_fuzz::FuzzTarget;

static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn damaged_requests() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The runtime's threads continue after a panic, so it is counted here.
        let thread = std::thread::current();
        let is_own = thread.name().is_none_or(|name| name.starts_with("tokio"));
        PANICS.fetch_add(usize::from(is_own), Relaxed);
        before(panic);
    }));
    let port = Port::running();
    let valid = [
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain; q=0.5, */*\r\n\r\n",
        "GET /state?format=text HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
        "GET /topology?format=text&a=%20%zz HTTP/1.0\r\n\r\n",
        "GET /stores/counts?where=_key%20in%20('a','b')%20or%20value%20%3e%203&allow_scan HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /dead-letters?limit=5&before=%31 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /app/%7b/a?x=%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /app/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST /debug/threads HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{\"a\": [1, 2]}",
        "GET /%2e%2e/config HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    let valid = valid.map(|request| request.as_bytes().to_vec()).to_vec();
    FuzzTarget::new("requests to the admin port", valid).run(|input| {
        let mut stream = TcpStream::connect(port.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        // The port may have closed the connection already.
        let _ = stream.write_all(input);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(PANICS.load(Relaxed), 0, "a handler panicked");
    });
    assert_eq!(port.get("/health/live").0, 200);
}
