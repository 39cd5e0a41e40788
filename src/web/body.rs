//! The body of a response: it is polled after the request's future is done, and needs its route too.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::route::Routed;

pin_project! {
    /// The body of a response behind a [`RouteLayer`](super::RouteLayer): that of the service, which is
    /// polled under the route of its request, or the text of a refusal.
    #[derive(Debug)]
    pub struct RoutedBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = Projected]
    #[derive(Debug)]
    enum Kind<B> {
        Service { #[pin] body: Routed<B> },
        Text { text: Option<String> },
    }
}

impl<B> RoutedBody<B> {
    pub(super) fn of_service(body: Routed<B>) -> Self {
        Self {
            kind: Kind::Service { body },
        }
    }

    pub(super) fn of_text(text: String) -> Self {
        Self {
            kind: Kind::Text {
                text: Some(text).filter(|text| !text.is_empty()),
            },
        }
    }
}

impl<B: Body> Body for RoutedBody<B>
where
    B::Data: From<String>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().kind.project() {
            Projected::Service { body } => body
                .with_inner(|body| body.poll_frame(context))
                .unwrap_or(Poll::Ready(None)),
            Projected::Text { text } => {
                let data = text.take().map(B::Data::from);
                Poll::Ready(data.map(|data| Ok(Frame::data(data))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body } => body.inner().is_none_or(Body::is_end_stream),
            Kind::Text { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body } => body.inner().map(Body::size_hint).unwrap_or_default(),
            Kind::Text { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}
