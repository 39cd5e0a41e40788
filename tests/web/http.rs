//! A client that speaks just enough HTTP, and can go away at any moment.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request; the answer can be read from what is returned.
pub(crate) async fn send(server: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Status and body of the answer.
pub(crate) async fn ask(server: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut answer = String::new();
    let mut stream = send(server, method, path, body).await;
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The same with the body as JSON, where it is some.
pub(crate) async fn ask_json(
    server: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, Value) {
    let (status, text) = ask(server, method, path, body).await;
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}
