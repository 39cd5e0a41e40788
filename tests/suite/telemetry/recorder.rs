//! A recorder for the `metrics` facade that keeps everything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

type Labels = Vec<(String, String)>;
type Values = BTreeMap<(String, Labels), Vec<f64>>;

/// What was recorded: of each key every increment, setting or observation, in their order.
#[derive(Clone, Default)]
pub(crate) struct Metrics(Arc<Mutex<Values>>);

impl Metrics {
    /// Records what the closure does on this thread.
    pub(crate) fn during<T>(&self, f: impl FnOnce() -> T) -> T {
        metrics::with_local_recorder(self, f)
    }

    /// The recorder of what happens on background threads, for shards whose names begin with
    /// `seen-`: the rest of the suite is not listened to.
    pub(crate) fn of_all_threads() -> Self {
        static ALL: OnceLock<Metrics> = OnceLock::new();
        ALL.get_or_init(|| {
            let all = Self::default();
            metrics::set_global_recorder(Seen(all.clone())).expect("nobody else records");
            all
        })
        .clone()
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().expect("not poisoned")
    }

    /// Every value of the keys with this name that have at least these labels.
    pub(crate) fn all(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let values = self.values();
        let matching = values.iter().filter(|((found, has), _)| {
            found == name
                && labels
                    .iter()
                    .all(|(label, value)| has.iter().any(|(l, v)| l == label && v == value))
        });
        matching.flat_map(|(_, values)| values.clone()).collect()
    }

    /// The sum of a counter.
    pub(crate) fn total(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name, labels).iter().sum()
    }

    /// The names that were used, each with the names of its labels.
    pub(crate) fn shapes(&self) -> BTreeMap<String, Vec<String>> {
        let values = self.values();
        values
            .keys()
            .map(|(name, labels)| {
                let mut labels: Vec<String> = labels.iter().map(|(l, _)| l.clone()).collect();
                labels.sort();
                (name.clone(), labels)
            })
            .collect()
    }

    /// All names, labels and values as one text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", *self.values())
    }
}

struct Handle(Metrics, (String, Labels));

impl Handle {
    fn new(metrics: &Metrics, key: &Key) -> Arc<Self> {
        let mut labels: Labels = key
            .labels()
            .map(|label| (label.key().to_owned(), label.value().to_owned()))
            .collect();
        labels.sort();
        Arc::new(Self(metrics.clone(), (key.name().to_owned(), labels)))
    }

    fn push(&self, value: f64) {
        let mut values = self.0.values();
        values.entry(self.1.clone()).or_default().push(value);
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        self.push(value as f64);
    }

    fn absolute(&self, _: u64) {
        panic!("no counter is set");
    }
}

impl GaugeFn for Handle {
    fn increment(&self, _: f64) {
        panic!("gauges are set, not moved");
    }

    fn decrement(&self, _: f64) {
        panic!("gauges are set, not moved");
    }

    fn set(&self, value: f64) {
        self.push(value);
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.push(value);
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Handle::new(self, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Handle::new(self, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Handle::new(self, key))
    }
}

struct Seen(Metrics);

fn is_seen(key: &Key) -> bool {
    key.labels()
        .any(|label| label.key() == "shard" && label.value().starts_with("seen-"))
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        match is_seen(key) {
            true => self.0.register_counter(key, metadata),
            false => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        match is_seen(key) {
            true => self.0.register_gauge(key, metadata),
            false => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        match is_seen(key) {
            true => self.0.register_histogram(key, metadata),
            false => Histogram::noop(),
        }
    }
}
