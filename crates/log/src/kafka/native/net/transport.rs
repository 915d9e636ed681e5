//! Bytes to and from a broker, plain or encrypted.
//!
//! A transport owns its socket, which never blocks: a call that would block returns so, and the caller
//! waits on [`Transport::poll_fd`].

use super::tls::{self, TlsStream};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, read};
use std::fmt::Debug;
use std::io::{self, ErrorKind as Io, IoSlice};
use std::net::TcpStream;

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) enum Read {
    /// Some bytes were read.
    Some,
    /// No bytes yet.
    Later,
    /// The other side has closed.
    End,
}

/// A connected socket.
pub(in crate::kafka) trait Transport: Debug + Send {
    /// Appends received bytes, at most `most`.
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Read>;

    /// Sends the start of these slices; returns how many bytes.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends what [`Self::write`] has taken and not yet sent. True once everything is sent.
    fn flush(&mut self) -> io::Result<bool>;

    /// The descriptor to poll.
    fn poll_fd(&self, flags: PollFlags) -> PollFd<'_>;
}

impl Transport for TcpStream {
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Read> {
        into.reserve_exact(most);
        match read(&*self, spare_capacity(into)) {
            Ok(0) => Ok(Read::End),
            Ok(_) | Err(Errno::INTR) => Ok(Read::Some),
            Err(Errno::AGAIN) => Ok(Read::Later),
            Err(e) => Err(e.into()),
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        tls::send(self, slices)
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn poll_fd(&self, flags: PollFlags) -> PollFd<'_> {
        PollFd::new(self, flags)
    }
}

impl Transport for TlsStream {
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Read> {
        Self::read(self, into, most)
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::write(self, slices)
    }

    fn flush(&mut self) -> io::Result<bool> {
        match self.send() {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == Io::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn poll_fd(&self, flags: PollFlags) -> PollFd<'_> {
        PollFd::new(self.socket(), flags)
    }
}
