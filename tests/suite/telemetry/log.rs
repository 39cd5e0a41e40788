//! A subscriber for `tracing` that keeps every line with the spans around it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, NoSubscriber};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

type Fields = BTreeMap<String, String>;

/// Subscribers that hear nothing, and have every other one asked.
///
/// As long as only one is registered, `tracing` lets the thread that comes to a line first decide for
/// everybody, and for good, whether the line is wanted: a thread of another test, which listens to
/// nothing. With more than one it asks all of them.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::new())));

/// One span: its name and fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) fields: Fields,
}

/// One event, and the spans it happened in, the innermost last.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) fields: Fields,
    pub(crate) spans: Vec<Span>,
}

impl Line {
    pub(crate) fn message(&self) -> &str {
        self.fields.get("message").map_or("", String::as_str)
    }

    /// The shard that a reader of the line sees: of the innermost span that names one.
    pub(crate) fn shard(&self) -> Option<&str> {
        let shards = self.spans.iter().rev();
        shards
            .filter_map(|span| span.fields.get("shard"))
            .map(String::as_str)
            .next()
    }
}

#[derive(Debug, Default)]
struct Kept {
    spans: Vec<Span>,
    entered: Vec<usize>,
    lines: Vec<Line>,
}

/// The log of one thread, at `TRACE`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Kept>>);

impl Log {
    /// Keeps what the closure logs on this thread.
    pub(crate) fn during<T>(&self, f: impl FnOnce() -> T) -> T {
        LazyLock::force(&OTHERS);
        tracing::subscriber::with_default(self.clone(), f)
    }

    /// The log of the crate's own events on all threads, of shards whose names begin with `seen-`.
    pub(crate) fn of_all_threads() -> Self {
        static ALL: OnceLock<Log> = OnceLock::new();
        LazyLock::force(&OTHERS);
        ALL.get_or_init(|| {
            let all = Self::default();
            tracing::subscriber::set_global_default(Seen(all.clone())).expect("nobody else logs");
            all
        })
        .clone()
    }

    /// The lines that say this.
    pub(crate) fn lines(&self, message: &str) -> Vec<Line> {
        let kept = self.0.lock().expect("not poisoned");
        let lines = kept.lines.iter();
        lines
            .filter(|line| line.message() == message)
            .cloned()
            .collect()
    }

    /// Everything as one text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.0.lock().expect("not poisoned"))
    }
}

struct Visitor<'a>(&'a mut Fields);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

fn index(id: &Id) -> usize {
    usize::try_from(id.into_u64() - 1).expect("not that many spans")
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        span.record(&mut Visitor(&mut fields));
        let mut kept = self.0.lock().expect("not poisoned");
        kept.spans.push(Span {
            name: span.metadata().name().to_owned(),
            fields,
        });
        Id::from_u64(kept.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut kept = self.0.lock().expect("not poisoned");
        values.record(&mut Visitor(&mut kept.spans[index(span)].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Visitor(&mut fields));
        let mut kept = self.0.lock().expect("not poisoned");
        let spans = kept.entered.iter().map(|at| kept.spans[*at].clone());
        let line = Line {
            level: *event.metadata().level(),
            fields,
            spans: spans.collect(),
        };
        kept.lines.push(line);
    }

    fn enter(&self, span: &Id) {
        let mut kept = self.0.lock().expect("not poisoned");
        kept.entered.push(index(span));
    }

    fn exit(&self, span: &Id) {
        let mut kept = self.0.lock().expect("not poisoned");
        if let Some(at) = kept.entered.iter().rposition(|at| *at == index(span)) {
            kept.entered.remove(at);
        }
    }
}

struct Seen(Log);

impl Subscriber for Seen {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.is_event() && metadata.target().starts_with("diesel_sharded") {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("diesel_sharded")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Visitor(&mut fields));
        let shard = fields.get("shard");
        if shard.is_some_and(|shard| shard.starts_with("seen-")) {
            self.0.event(event);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_line_that_a_thread_without_a_listener_comes_to_first_is_heard() {
    fn say() {
        tracing::info!("met by both");
    }
    let log = Log::default();
    log.during(|| {
        std::thread::spawn(say).join().unwrap();
        say();
    });
    assert_eq!(log.lines("met by both").len(), 1);
}
