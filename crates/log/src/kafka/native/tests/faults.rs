//! A broker in this process that fails as often as a seed says.
//!
//! Its faults: it closes a connection before or after it has handled a request, without an answer; it
//! answers "not yet" or "not here" without doing anything; it truncates an answer.

use super::broker::Kept;
use bytes::Bytes;
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

/// xorshift: the seed determines all random choices.
#[derive(Debug)]
pub(in crate::kafka::native) struct Dice(pub u64);

impl Dice {
    pub(in crate::kafka::native) const fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// The broker. Once dropped, it accepts no connections; open ones end with their clients.
#[derive(Debug)]
pub(in crate::kafka::native) struct FaultyBroker {
    pub kept: Arc<Mutex<Kept>>,
    pub port: u16,
    stopped: Arc<AtomicBool>,
}

impl Drop for FaultyBroker {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _connection = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// What the broker does wrong with one request.
enum InjectedFault {
    None,
    /// Closes the connection, after handling the request or before.
    Close {
        done: bool,
    },
    /// Sends half of the answer.
    Cut,
    /// Does nothing, and answers so.
    NotYet,
}

impl FaultyBroker {
    pub(in crate::kafka::native) fn start(seed: u64, one_of: u64, transactions_v2: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Kept::new(Dice(seed | 1), one_of, transactions_v2, port);
        let kept = Arc::new(Mutex::new(kept));
        let shared = Arc::clone(&kept);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let accept = move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                let shared = Arc::clone(&shared);
                let serve = move || serve(stream.unwrap(), &shared);
                Builder::new().spawn(serve).unwrap();
            }
        };
        Builder::new().spawn(accept).unwrap();
        Self {
            kept,
            port,
            stopped,
        }
    }

    pub(in crate::kafka::native) fn committed(&self, topic: &str, partition: i32) -> Vec<Bytes> {
        self.kept.lock().visible(topic, partition)
    }

    pub(in crate::kafka::native) fn is_hanging(&self) -> bool {
        self.kept.lock().is_hanging()
    }
}

fn serve(mut stream: TcpStream, kept: &Mutex<Kept>) {
    // A failed read means that the client is gone.
    let _gone = (|| -> std::io::Result<()> {
        loop {
            let mut size = [0; 4];
            stream.read_exact(&mut size)?;
            let mut request = vec![0; u32::from_be_bytes(size) as usize];
            stream.read_exact(&mut request)?;
            let mut kept = kept.lock();
            if let Some(id) = kept.end_is_lost(&request) {
                // The request was lost, and the broker has aborted the transaction before a second one.
                kept.time_out(&id);
                return Ok(());
            }
            if kept.is_lost(&request) {
                return Ok(());
            }
            if let Some(id) = kept.is_taken_over(&request) {
                kept.answer(Bytes::from(request), false);
                kept.take_over(&id);
                return Ok(());
            }
            let fault = InjectedFault::of(&mut kept);
            if matches!(fault, InjectedFault::Close { done: false }) {
                return Ok(());
            }
            let answer = kept.answer(Bytes::from(request), matches!(fault, InjectedFault::NotYet));
            drop(kept);
            let half = answer.len() / 2;
            match fault {
                InjectedFault::Close { .. } => return Ok(()),
                InjectedFault::Cut => return stream.write_all(&answer[..half]),
                InjectedFault::None | InjectedFault::NotYet => stream.write_all(&answer)?,
            }
        }
    })();
}

impl InjectedFault {
    fn of(kept: &mut Kept) -> Self {
        if kept.one_of == 0 || kept.dice.roll(kept.one_of) > 0 {
            return Self::None;
        }
        kept.faults += 1;
        match kept.dice.roll(4) {
            0 => Self::Close { done: false },
            1 => Self::Close { done: true },
            2 => Self::Cut,
            _ => Self::NotYet,
        }
    }
}
