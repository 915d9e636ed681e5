//! The connections of the admin port: accepted, encrypted, limited in number and in time.
//!
//! A client that sends nothing, sends slowly or doesn't read its answer loses its connection. Beyond the
//! maximum number of connections, new clients get a 503 at once. So the port stays available to others,
//! however clients behave.

use super::access::Peer;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The head of a request must arrive within this time; also the limit between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client must read some of its answer within this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long answers in progress may take after the port closes.
const CLOSE_LINGER: Duration = Duration::from_millis(500);
/// Pause after the system refused a connection (no file descriptors left).
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The answer when all connections are in use.
const TOO_MANY_CONNECTIONS: &str = r#"{"type":"urn:stoatflow:too_many_connections","title":"Service Unavailable","status":503,
"detail":"all connections to the admin port are in use",
"next_step":"close some, or raise admin.max.connections"}"#;

/// Accepts connections until `stop`.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    most: usize,
    mut stop: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // An error means that the sender, and with it the engine, is gone.
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::debug!(%error, "the admin port can't accept a connection");
                sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            refuse(socket, tls.is_some());
            continue;
        };
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        tokio::spawn(async move {
            serve_socket(socket, tls, router, stop).await;
            drop(permit);
        });
    }
}

/// Answers that there is no room, without waiting for the client.
fn refuse(socket: TcpStream, encrypted: bool) {
    if !encrypted {
        let text = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n\
                Connection: close\r\nContent-Length: {}\r\n\r\n{TOO_MANY_CONNECTIONS}",
            TOO_MANY_CONNECTIONS.len()
        );
        let _unsent = socket.try_write(text.as_bytes());
    }
}

async fn serve_socket(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: watch::Receiver<bool>,
) {
    // Answers are written whole; with Nagle's algorithm the last part would wait for an acknowledgement.
    let _unset = socket.set_nodelay(true);
    let Some(tls) = tls else {
        let peer = Peer { certified: false };
        return serve(WriteTimeoutStream::new(socket), peer, router, stop).await;
    };
    let Ok(Ok(stream)) = timeout(
        HANDSHAKE_TIMEOUT,
        tls.accept(WriteTimeoutStream::new(socket)),
    )
    .await
    else {
        return;
    };
    let certified = stream.get_ref().1.peer_certificates().is_some();
    serve(stream, Peer { certified }, router, stop).await;
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return said(ended),
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    if let Ok(ended) = timeout(CLOSE_LINGER, connection).await {
        said(ended);
    }
}

fn said(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin port ended");
    }
}

/// A stream whose writes fail if the other end reads nothing for [`WRITE_TIMEOUT`].
struct WriteTimeoutStream<S> {
    stream: S,
    /// The deadline of a pending write.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    const fn new(stream: S) -> Self {
        Self {
            stream,
            until: None,
        }
    }

    fn check_stalled<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.until = None;
            return polled;
        }
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        match until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_stalled(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check_stalled(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_stalled(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check_stalled(polled, cx)
    }
}
