//! How a request is routed: what it is asked for, and what the answer means. No web framework in sight.

use std::fmt;
use std::sync::Arc;

use super::{Refusal, ShardSource};
use crate::error::Error;
use crate::key::ToShardKey;
use crate::name::KeyspaceName;
use crate::route::Route;
use crate::telemetry;

/// What a closure finds in a request: `Option<T>`, or a `Result` whose error is told to the sender
/// (status 400).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what the request names",
    label = "expected an `Option<{T}>` or a `Result<{T}, impl Display>`",
    note = "the closure reads the shard key (or shard, or route) from the request; `None` means that it names none"
)]
pub trait Named<T>: sealed::Sealed {
    /// What was found; the text of an error is part of the response.
    ///
    /// # Errors
    ///
    /// What the closure has answered.
    fn named(self) -> Result<Option<T>, String>;
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for Option<T> {}
    impl<T, E> Sealed for Result<T, E> {}
}

impl<T> Named<T> for Option<T> {
    fn named(self) -> Result<Option<T>, String> {
        Ok(self)
    }
}

impl<T, E: fmt::Display> Named<T> for Result<T, E> {
    fn named(self) -> Result<Option<T>, String> {
        self.map(Some).map_err(|error| error.to_string())
    }
}

type Find<R> = dyn Fn(&R) -> Result<Option<Route>, Refusal> + Send + Sync;

/// The routing of requests of type `R`.
pub(super) struct Rule<R> {
    source: Arc<dyn ShardSource>,
    /// `None`: no request has a route.
    find: Option<Arc<Find<R>>>,
    optional: bool,
    /// What a request lacks that names nothing.
    what: &'static str,
}

impl<R> Clone for Rule<R> {
    fn clone(&self) -> Self {
        Self {
            source: Arc::clone(&self.source),
            find: self.find.clone(),
            ..*self
        }
    }
}

impl<R> Rule<R> {
    fn new(
        source: Arc<dyn ShardSource>,
        what: &'static str,
        find: impl Fn(&R) -> Result<Option<Route>, Refusal> + Send + Sync + 'static,
    ) -> Self {
        Self {
            source,
            find: Some(Arc::new(find)),
            optional: false,
            what,
        }
    }

    pub(super) fn empty_stack(source: impl ShardSource) -> Self {
        Self {
            source: Arc::new(source),
            find: None,
            optional: true,
            what: "",
        }
    }

    pub(super) fn by_key<K, N>(
        source: impl ShardSource,
        keyspace: &str,
        key: impl Fn(&R) -> N + Send + Sync + 'static,
    ) -> Result<Self, Error>
    where
        K: ToShardKey,
        N: Named<K>,
    {
        let source: Arc<dyn ShardSource> = Arc::new(source);
        let name: KeyspaceName = source.topology().with_current(|snapshot| {
            let index = snapshot.find_keyspace(keyspace)?;
            Ok::<_, Error>(snapshot.keyspaces()[index].name)
        })?;
        let inner = Arc::clone(&source);
        Ok(Self::new(source, "shard key", move |request| {
            key(request)
                .named()
                .map_err(Refusal::bad_request)?
                .map(|key| inner.topology().route_for(name.as_str(), &key))
                .transpose()
                .map_err(refused)
        }))
    }

    pub(super) fn by_shard<S, N>(
        source: impl ShardSource,
        shard: impl Fn(&R) -> N + Send + Sync + 'static,
    ) -> Self
    where
        S: AsRef<str>,
        N: Named<S>,
    {
        let source: Arc<dyn ShardSource> = Arc::new(source);
        let inner = Arc::clone(&source);
        Self::new(source, "shard", move |request| {
            shard(request)
                .named()
                .map_err(Refusal::bad_request)?
                .map(|shard| inner.topology().route(shard))
                .transpose()
                .map_err(refused)
        })
    }

    pub(super) fn by_route<S, N>(
        source: impl ShardSource,
        text: impl Fn(&R) -> N + Send + Sync + 'static,
    ) -> Self
    where
        S: AsRef<str>,
        N: Named<S>,
    {
        let source: Arc<dyn ShardSource> = Arc::new(source);
        let inner = Arc::clone(&source);
        Self::new(source, "route", move |request| {
            text(request)
                .named()
                .map_err(Refusal::bad_request)?
                .map(|text| inner.topology().parse_route(text.as_ref()))
                .transpose()
                .map_err(refused)
        })
    }

    pub(super) fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The route of a request; `None`: it runs with an empty stack.
    pub(super) fn route_of(&self, request: &R) -> Result<Option<Route>, Refusal> {
        let route = match &self.find {
            None => None,
            Some(find) => find(request)?,
        };
        match route {
            Some(route) => match self.source.unavailable(&route) {
                None => Ok(Some(route)),
                Some(error) => Err(refused(error)),
            },
            None if self.optional => Ok(None),
            None => Err(Refusal::bad_request(format!(
                "the request names no {}",
                self.what
            ))),
        }
    }
}

fn refused(error: Error) -> Refusal {
    telemetry::refused(&error);
    Refusal::from(error)
}

impl<R> fmt::Debug for Rule<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("topology", self.source.topology())
            .field("by", &self.what)
            .field("optional", &self.optional)
            .finish_non_exhaustive()
    }
}
