//! Bytes to and from a broker, plain or encrypted.
//!
//! Owns the socket, which never blocks by itself: what would block says so, and the caller waits on
//! [`Transport::poll_fd`].

use super::tls::{self, TlsStream};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, read};
use std::io::{self, ErrorKind as Io, IoSlice};
use std::net::TcpStream;

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// So many bytes.
    Some,
    /// Nothing yet.
    Later,
    /// The other side has closed.
    End,
}

/// A connected socket.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Appends what has come, at most `most` bytes more.
    pub(super) fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Read> {
        match self {
            Self::Plain(stream) => {
                into.reserve_exact(most);
                match read(&*stream, spare_capacity(into)) {
                    Ok(0) => Ok(Read::End),
                    Ok(_) | Err(Errno::INTR) => Ok(Read::Some),
                    Err(Errno::AGAIN) => Ok(Read::Later),
                    Err(e) => Err(e.into()),
                }
            }
            Self::Tls(stream) => stream.read(into, most),
        }
    }

    /// Sends the start of these slices; gives how many bytes.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => tls::send(stream, slices),
            Self::Tls(stream) => stream.write(slices),
        }
    }

    /// Sends what [`Self::write`] has taken and not yet sent. True once all of it is.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(stream) => match stream.send() {
                Ok(()) => Ok(true),
                Err(e) if e.kind() == Io::WouldBlock => Ok(false),
                Err(e) => Err(e),
            },
        }
    }

    pub(super) fn poll_fd(&self, flags: PollFlags) -> PollFd<'_> {
        match self {
            Self::Plain(stream) => PollFd::new(stream, flags),
            Self::Tls(stream) => PollFd::new(stream.socket(), flags),
        }
    }
}
