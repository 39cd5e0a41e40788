//! The answer to a request that is not let in.

use std::fmt;

use crate::error::Error;

/// Why a request is not served: a status, and a text for its sender.
///
/// The text says nothing of the topology but the name that the request itself has asked for, and the
/// shard that is down. [`error`](Self::error) has the whole truth, for the log.
///
/// A handler answers with the same statuses by `Refusal::from(error)`:
///
/// | error | status |
/// |---|---|
/// | no key, a key of the wrong type, a text that is no route | 400 |
/// | a key that no shard covers, a shard that does not exist | 404 |
/// | the shard is down, offline or read-only, or its connections are all in use | 503, with `retry-after` |
/// | anything else | 500 |
#[derive(Debug)]
pub struct Refusal {
    status: u16,
    message: String,
    /// On the heap, so that a result with a refusal stays small.
    error: Option<Box<Error>>,
}

impl Refusal {
    /// For a request that brings nothing to route it by, or something that cannot be read.
    pub(super) fn bad_request(message: String) -> Self {
        Self {
            status: 400,
            message,
            error: None,
        }
    }

    /// The status code of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The text for the sender of the request.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error behind it, where it was one of this crate's.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.error.as_deref()
    }

    /// After how many seconds it makes sense to try again, if it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        (self.status == 503).then_some(1)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (status, message) = match &error {
            Error::NoRoute { .. } => (400, "the request names no shard".to_owned()),
            Error::NullShardKey { .. } => (400, "the shard key of the request is null".to_owned()),
            Error::KeyType {
                expected, found, ..
            } => (
                400,
                format!(
                    "the shard key of the request has the wrong type: {expected} is wanted, not {found}"
                ),
            ),
            Error::InvalidRoute { reason, .. } => (
                400,
                format!("the route of the request cannot be read: {reason}"),
            ),
            Error::UnknownWorkload { .. } => (
                400,
                "the route of the request names a workload class that does not exist".to_owned(),
            ),
            Error::UnknownShard { shard, .. } => {
                let shard: String = shard.chars().take(128).collect();
                (404, format!("there is no shard {shard:?}"))
            }
            Error::NotCovered { .. } => (404, "no shard has the key of the request".to_owned()),
            Error::Unavailable { shard, .. } | Error::ShardOffline { shard } => (
                503,
                format!("shard {shard} is not available at the moment, try again later"),
            ),
            Error::PoolExhausted { shard, .. } => {
                (503, format!("shard {shard} is busy, try again later"))
            }
            Error::ShardReadOnly { shard, .. } => (
                503,
                format!("shard {shard} takes no writes at the moment, try again later"),
            ),
            _ => (500, "the request could not be served".to_owned()),
        };
        Self {
            status,
            message,
            error: Some(Box::new(error)),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.as_deref().map(|error| error as _)
    }
}

/// The response as tower services give it: the text, as plain text.
#[cfg(feature = "tower")]
impl From<Refusal> for http::Response<String> {
    fn from(refusal: Refusal) -> Self {
        use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};

        let mut response = Self::new(refusal.message);
        *response.status_mut() = http::StatusCode::from_u16(refusal.status)
            .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, plain);
        if refusal.status == 503 {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
