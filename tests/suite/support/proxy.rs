//! A wire that can be watched and cut: a TCP proxy between the crate and a server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards to one server and counts the round trips.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: (String, u16),
    round_trips: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy in front of the server of this URL.
    pub(crate) fn new(url: &str) -> Self {
        Self::on(0, url)
    }

    /// The same on a port of this machine; 0 for any.
    pub(crate) fn on(port: u16, url: &str) -> Self {
        let url = url::Url::parse(url).expect("a URL");
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let shared = Arc::new(Shared {
            server: (
                url.host_str().expect("a host").to_owned(),
                url.port().expect("a port"),
            ),
            round_trips: AtomicU64::new(0),
            streams: Mutex::default(),
        });
        let proxy = Self {
            port: listener.local_addr().expect("an address").port(),
            shared: Arc::clone(&shared),
        };
        // Ends with the process: the listener has no other end.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                shared.forward(client);
            }
        });
        proxy
    }

    /// The URL with the proxy in the server's place.
    pub(crate) fn url(&self, url: &str) -> String {
        let mut url = url::Url::parse(url).expect("a URL");
        url.set_host(Some("127.0.0.1")).expect("a host can be set");
        url.set_port(Some(self.port)).expect("a port can be set");
        url.into()
    }

    /// How often a client has asked something since the proxy was made.
    pub(crate) fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::SeqCst)
    }

    /// Cuts every connection, as a broken network does.
    pub(crate) fn cut(&self) {
        for stream in self.shared.streams.lock().expect("not poisoned").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn forward(self: &Arc<Self>, client: TcpStream) {
        let (host, port) = &self.server;
        let Ok(server) = TcpStream::connect((host.as_str(), *port)) else {
            return;
        };
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
            let kept = stream.try_clone().expect("a socket can be shared");
            self.streams.lock().expect("not poisoned").push(kept);
        }
        // The server has answered (or greeted) since the client last spoke.
        let answered = Arc::new(AtomicBool::new(true));
        let (from_client, to_client) = (client.try_clone(), client);
        let (from_server, to_server) = (server.try_clone(), server);
        let (shared, asks) = (Arc::clone(self), Arc::clone(&answered));
        let from_client = from_client.expect("a socket can be shared");
        let from_server = from_server.expect("a socket can be shared");
        std::thread::spawn(move || {
            pump(from_client, to_server, |piece| {
                if wants_an_answer(piece) && asks.swap(false, Ordering::SeqCst) {
                    shared.round_trips.fetch_add(1, Ordering::SeqCst);
                }
            });
        });
        std::thread::spawn(move || {
            pump(from_server, to_client, |_| {
                answered.store(true, Ordering::SeqCst);
            });
        });
    }
}

/// Whether a piece of what a client says has something in it that the server answers.
///
/// "Close this statement" of both protocols and their goodbye are not: they leave when they like. (PostgreSQL's
/// has a `Sync` behind it and is answered, but nobody waits for that.)
fn wants_an_answer(mut piece: &[u8]) -> bool {
    loop {
        piece = match piece {
            [5, 0, 0, 0, 0x19, _, _, _, _, rest @ ..] => rest,
            [1, 0, 0, 0, 1, rest @ ..] | [b'X', 0, 0, 0, 4, rest @ ..] => rest,
            _ => match after_a_close(piece) {
                Some(rest) => rest,
                None => return !piece.is_empty(),
            },
        };
    }
}

/// What follows PostgreSQL's `Close` of a statement and the `Sync` behind it, where the piece begins with them.
fn after_a_close(piece: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = piece.strip_prefix(b"C")?.split_first_chunk::<4>()?;
    let body = usize::try_from(u32::from_be_bytes(length))
        .ok()?
        .checked_sub(4)?;
    let (body, rest) = rest.split_at_checked(body)?;
    match body {
        [b'S', name @ .., 0] if !name.contains(&0) => rest.strip_prefix(&[b'S', 0, 0, 0, 4]),
        _ => None,
    }
}

/// Copies until one end closes; `passing` is told of every piece before it is passed on.
fn pump(mut from: TcpStream, mut to: TcpStream, mut passing: impl FnMut(&[u8])) {
    let mut piece = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        passing(&piece[..length]);
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
