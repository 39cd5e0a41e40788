//! What the production tests need beyond [`crate::support`]: servers that misbehave on order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diesel_sharded::Error;

/// `url`, changed.
pub(crate) fn changed(url: &str, change: impl FnOnce(&mut url::Url)) -> String {
    let mut url = url::Url::parse(url).expect("a URL");
    change(&mut url);
    url.into()
}

/// The URL with another port of this machine.
pub(crate) fn at_port(url: &str, port: u16) -> String {
    changed(url, |url| {
        url.set_host(Some("127.0.0.1")).expect("a host can be set");
        url.set_port(Some(port)).expect("a port can be set");
    })
}

/// The URL with another user.
pub(crate) fn as_user(url: &str, user: &str, password: &str) -> String {
    // A per cent sign that is one is the caller's to escape.
    let password = password.replace('%', "%25");
    changed(url, |url| {
        url.set_username(user).expect("a user can be set");
        url.set_password(Some(&password))
            .expect("as can a password");
    })
}

/// A port of this machine where nobody listens.
pub(crate) fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A host that accepts and says nothing, as long as it lives.
pub(crate) struct Silent(TcpListener);

impl Silent {
    pub(crate) fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }
}

/// A name for a user of one test.
pub(crate) fn user_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("dst_u{}_{next}", std::process::id())
}

/// Everything an error says; fails when a test server's password or one of these is in it.
pub(crate) fn told(error: &Error, secrets: &[&str]) -> String {
    let text = crate::support::said(error);
    for secret in secrets {
        assert!(!text.contains(secret), "{secret} is in: {text}");
    }
    text
}

/// What a [`Gate`] does with a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Pass,
    /// Hangs up at once.
    HangUp,
    /// Accepts and says nothing.
    Silent,
}

/// A network that can be broken and restored, in front of one server.
pub(crate) struct Gate {
    port: u16,
    state: Arc<GateState>,
}

struct GateState {
    server: (String, u16),
    mode: Mutex<Mode>,
    accepted: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl Gate {
    pub(crate) fn new(url: &str, mode: Mode) -> Self {
        let url = url::Url::parse(url).expect("a URL");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let state = Arc::new(GateState {
            server: (
                url.host_str().expect("a host").to_owned(),
                url.port().expect("a port"),
            ),
            mode: Mutex::new(mode),
            accepted: AtomicUsize::new(0),
            streams: Mutex::default(),
        });
        let gate = Self {
            port: listener.local_addr().expect("an address").port(),
            state: Arc::clone(&state),
        };
        // Ends with the process: the listener has no other end.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                state.serve(client);
            }
        });
        gate
    }

    pub(crate) fn url(&self, url: &str) -> String {
        at_port(url, self.port)
    }

    /// How many clients have come so far.
    pub(crate) fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// From now on; what is connected stays.
    pub(crate) fn set(&self, mode: Mode) {
        *lock(&self.state.mode) = mode;
    }

    /// The network breaks: everything that is connected is cut, and so is what comes.
    pub(crate) fn break_down(&self) {
        self.set(Mode::HangUp);
        for stream in lock(&self.state.streams).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl GateState {
    fn serve(&self, client: TcpStream) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        let mode = *lock(&self.mode);
        match mode {
            Mode::HangUp => {}
            Mode::Silent => lock(&self.streams).push(client),
            Mode::Pass => {
                let Ok(server) = TcpStream::connect((self.server.0.as_str(), self.server.1)) else {
                    return;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let share = |stream: &TcpStream| stream.try_clone().expect("can be shared");
                    let _ = from.set_nodelay(true);
                    lock(&self.streams).push(share(from));
                    let (from, to) = (share(from), share(to));
                    std::thread::spawn(move || pump(from, to));
                }
            }
        }
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut piece = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that refuses every client with an error of its own protocol, for refusals that no
/// server can be made to give at a chosen moment.
pub(crate) fn refusing_server(postgres: bool, code: &'static str, words: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = match postgres {
                    true => refuse_postgres(client, code, words),
                    false => refuse_mysql(client, code, words),
                };
            });
        }
    });
    port
}

fn refuse_postgres(mut client: TcpStream, code: &str, words: &str) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut message = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut message)?;
        // SSLRequest and GSSENCRequest are declined, the startup message is refused.
        if message.len() == 4 {
            client.write_all(b"N")?;
            continue;
        }
        let fields = format!("SFATAL\0VFATAL\0C{code}\0M{words}\0\0");
        let length = u32::try_from(fields.len() + 4).expect("short");
        client.write_all(b"E")?;
        client.write_all(&length.to_be_bytes())?;
        client.write_all(fields.as_bytes())?;
        return client.shutdown(Shutdown::Write);
    }
}

fn refuse_mysql(mut client: TcpStream, code: &str, words: &str) -> std::io::Result<()> {
    let mut packet = vec![0xff];
    let code: u16 = code.parse().expect("a number");
    packet.extend(code.to_le_bytes());
    packet.extend(words.as_bytes());
    let length = u32::try_from(packet.len()).expect("short").to_le_bytes();
    client.write_all(&[length[0], length[1], length[2], 0])?;
    client.write_all(&packet)?;
    client.shutdown(Shutdown::Write)
}

/// Servers of one kind that belong to one test alone, so that it may crash and reconfigure them.
pub(crate) struct OwnServers {
    child: Child,
    /// The servers live until this is closed.
    _leash: ChildStdin,
    scratch: String,
    url: String,
    variable: &'static str,
}

impl OwnServers {
    /// Starts them; takes some seconds.
    pub(crate) fn start(variable: &'static str) -> Self {
        let mut child = script()
            .args(["run", "--", "bash", "-c"])
            .arg(format!(
                "echo \"$DIESEL_SHARDED_TEST_SCRATCH\"; echo \"${variable}\"; read -r _ || true"
            ))
            .env_remove(variable)
            .env_remove("DIESEL_SHARDED_TEST_SCRATCH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/servers can be run");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut line = || match lines.next() {
            Some(Ok(line)) => line,
            other => panic!("scripts/servers did not start servers of this test's own: {other:?}"),
        };
        let (scratch, urls) = (line(), line());
        Self {
            _leash: child.stdin.take().expect("piped"),
            child,
            scratch,
            url: urls
                .split_whitespace()
                .next()
                .expect("at least one")
                .to_owned(),
            variable,
        }
    }

    /// The admin URL of the first server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// `stop`, `crash` or `start` for the first server.
    pub(crate) fn tell(&self, what: &str) {
        let name = if self.variable == crate::support::server::POSTGRES {
            "pg1"
        } else {
            "my1"
        };
        let done = script()
            .args([what, name])
            .env("DIESEL_SHARDED_TEST_SCRATCH", &self.scratch)
            .output()
            .expect("scripts/servers can be run");
        assert!(done.status.success(), "{what} {name}: {done:?}");
    }
}

fn script() -> Command {
    let mut command = Command::new("bash");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/servers"));
    command
}

impl Drop for OwnServers {
    fn drop(&mut self) {
        // The script takes its servers down, also those that were started again.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

/// Runs one test of this program in a process of its own, and passes on what it says. `true` in
/// that process.
pub(crate) fn alone(test: &str) -> bool {
    const ALONE: &str = "DIESEL_SHARDED_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("the test program knows itself");
    let done = Command::new(program)
        .args(["--exact", "--nocapture", "--test-threads=1", test])
        .env(ALONE, "1")
        .output()
        .expect("the test program can be run");
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{test} failed in its own process");
    assert!(said.contains("1 passed"), "{test} was not found: {said}");
    false
}

/// The threads of this process.
pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("Linux says which threads there are")
        .count()
}
