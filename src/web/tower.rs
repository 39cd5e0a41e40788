//! The layer for tower services.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::rule::{Named, Rule};
use super::{Refusal, RoutedBody, ShardSource};
use crate::error::Error;
use crate::key::ToShardKey;
use crate::route::{CapturedRoutes, IntoRoutes, Routed};

type Answer = dyn Fn(Refusal) -> Response<String> + Send + Sync;

/// Gives each request of a tower service a route stack of its own, with the route of its shard.
///
/// The closure reads the shard key (or the name of the shard, or a route's text form) from a header, the
/// path, or an extension that an earlier layer has left; see [`Refusal`] for the answers to requests
/// that cannot be routed. A layer that answers without a shard (CORS preflights, health checks) belongs
/// outside of this one, or use [`optional`](Self::optional). In axum it goes into `route_layer`, so that
/// a path that does not exist is still a 404.
///
/// ```
/// use diesel_sharded::web::RouteLayer;
/// use diesel_sharded::{KeyType, KeyspaceConfig, Route, RuleSpec, Topology};
/// use http::{Request, Response};
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let topology = Topology::builder()
///     .shard("order-0", "order-0.db")
///     .shard("order-1", "order-1.db")
///     .keyspace("orders", KeyspaceConfig::new(RuleSpec::hash(["order-0", "order-1"], 64).key(KeyType::Integer)))
///     .build()?;
///
/// let by_customer = RouteLayer::by_key(topology.clone(), "orders", |request| {
///     match request.headers.get("x-customer-id") {
///         Some(id) => id.to_str().ok().and_then(|id| id.parse::<i64>().ok()).ok_or("x-customer-id is no number"),
///         None => Err("the header x-customer-id is missing"),
///     }
/// })?;
/// let service = ServiceBuilder::new().layer(by_customer).service_fn(async |_: Request<String>| {
///     // The route of the customer's shard is in force here, and nothing else.
///     assert_eq!(Route::stack_depth(), 1);
///     Ok::<_, std::convert::Infallible>(Response::new(String::from("done")))
/// });
///
/// let request = Request::builder().header("x-customer-id", "7").body(String::new())?;
/// assert_eq!(service.clone().oneshot(request).await?.status(), 200);
/// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 400);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct RouteLayer {
    rule: Rule<Parts>,
    answer: Option<Arc<Answer>>,
}

impl RouteLayer {
    /// Routes by a shard key of this keyspace.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownKeyspace`].
    pub fn by_key<K, N>(
        source: impl ShardSource,
        keyspace: impl AsRef<str>,
        key: impl Fn(&Parts) -> N + Send + Sync + 'static,
    ) -> Result<Self, Error>
    where
        K: ToShardKey,
        N: Named<K>,
    {
        Rule::by_key(source, keyspace.as_ref(), key).map(Self::new)
    }

    /// Routes by the name of a shard.
    pub fn by_shard<S, N>(
        source: impl ShardSource,
        shard: impl Fn(&Parts) -> N + Send + Sync + 'static,
    ) -> Self
    where
        S: AsRef<str>,
        N: Named<S>,
    {
        Self::new(Rule::by_shard(source, shard))
    }

    /// Routes by the text form of a route, which another service has sent along; it is checked
    /// against the topology of today.
    pub fn by_route<S, N>(
        source: impl ShardSource,
        text: impl Fn(&Parts) -> N + Send + Sync + 'static,
    ) -> Self
    where
        S: AsRef<str>,
        N: Named<S>,
    {
        Self::new(Rule::by_route(source, text))
    }

    /// Gives each request an empty stack and no route: for services that route inside their handlers.
    pub fn empty_stack(source: impl ShardSource) -> Self {
        Self::new(Rule::empty_stack(source))
    }

    fn new(rule: Rule<Parts>) -> Self {
        Self { rule, answer: None }
    }

    /// Lets a request in that names no key (the closure says `None`): it runs with an empty stack, so
    /// that its checkouts take the default shard or fail with [`Error::NoRoute`]. Defaults to 400, as
    /// which an `Err` of the closure is answered all the same.
    pub fn optional(mut self) -> Self {
        self.rule = self.rule.optional();
        self
    }

    /// Makes the response to a request that is not let in. Defaults to the text of the refusal, as
    /// plain text.
    pub fn refuse_with(
        mut self,
        answer: impl Fn(Refusal) -> Response<String> + Send + Sync + 'static,
    ) -> Self {
        self.answer = Some(Arc::new(answer));
        self
    }
}

impl<S> Layer<S> for RouteLayer {
    type Service = RouteService<S>;

    fn layer(&self, inner: S) -> RouteService<S> {
        RouteService {
            inner,
            layer: self.clone(),
        }
    }
}

impl fmt::Debug for RouteLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteLayer")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

/// A service behind a [`RouteLayer`].
#[derive(Clone, Debug)]
pub struct RouteService<S> {
    inner: S,
    layer: RouteLayer,
}

impl<S, Q, B> Service<Request<Q>> for RouteService<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    B: Body,
    B::Data: From<String>,
{
    type Response = Response<RoutedBody<B>>;
    type Error = S::Error;
    type Future = RouteFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> RouteFuture<S::Future> {
        let (parts, body) = request.into_parts();
        let kind = match self.layer.rule.route_of(&parts) {
            Ok(route) => {
                let routes = route.map_or_else(CapturedRoutes::none, IntoRoutes::into_routes);
                let request = Request::from_parts(parts, body);
                // What the service does before it gives its future has the route too.
                let future = Routed::made_in(&routes, || self.inner.call(request));
                Kind::Service { future, routes }
            }
            Err(refusal) => Kind::Refused {
                response: Some(match &self.layer.answer {
                    Some(answer) => answer(refusal),
                    None => refusal.into(),
                }),
            },
        };
        RouteFuture { kind }
    }
}

pin_project! {
    /// The future of a [`RouteService`].
    #[derive(Debug)]
    pub struct RouteFuture<F> {
        #[pin]
        kind: Kind<F>,
    }
}

pin_project! {
    #[project = Projected]
    #[derive(Debug)]
    enum Kind<F> {
        Service {
            #[pin]
            future: Routed<F>,
            routes: CapturedRoutes,
        },
        Refused {
            response: Option<Response<String>>,
        },
    }
}

impl<F, B, E> Future for RouteFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<RoutedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            Projected::Service { future, routes } => {
                let response = ready!(future.poll(context))?;
                // The body is polled after this future is done: a stack of its own for it.
                let body = |body| RoutedBody::of_service(Routed::new(body, routes));
                Poll::Ready(Ok(response.map(body)))
            }
            Projected::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response.map(RoutedBody::of_text))),
                None => Poll::Pending,
            },
        }
    }
}
