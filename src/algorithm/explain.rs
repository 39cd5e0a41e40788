//! How a key came to its place, step by step.

use std::fmt;

use super::rule::{Algorithm, PlaceError, Rule};
use super::{jump, prune};
use crate::key::{KeyValue, ShardKey};
use crate::name::ShardName;

/// How a key came to its place: every step, as data and, by its [`Display`](fmt::Display), as lines
/// to read.
///
/// It serializes, for a debug page. The key is shown as errors show it, cut where it is long; URLs
/// have no password.
///
/// ```
/// use diesel_sharded::{KeyspaceConfig, RuleSpec, Topology};
///
/// let topology = Topology::builder()
///     .shard("a", "a.sqlite")
///     .shard("b", "b.sqlite")
///     .keyspace(
///         "orders",
///         KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 4096)).table("t_order", "user_id", 8),
///     )
///     .build()?;
/// let explained = topology.explain("orders", &42)?;
/// assert_eq!(explained.shard, topology.locate("orders", &42)?.shard());
/// assert_eq!(explained.canonical, "0x012a000000000000000000000000000000");
/// assert!(explained.bucket < Some(4096));
/// assert_eq!(explained.tables[0].0, "t_order");
/// println!("{explained}");
/// # Ok::<(), diesel_sharded::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The keyspace that was asked.
    pub keyspace: String,
    /// The fingerprint of its rule, map and tables.
    pub fingerprint: String,
    /// The key.
    pub key: String,
    /// The type of the key.
    pub key_type: String,
    /// What normalization made of the key, where it changed it.
    pub normalized: Option<String>,
    /// The canonical bytes, hexadecimal; cut after 64.
    pub canonical: String,
    /// The kind of the rule's algorithm.
    pub algorithm: &'static str,
    /// What the algorithm did, in order.
    pub steps: Vec<ExplainStep>,
    /// The hash that decided, for kinds that hash.
    pub hash: Option<u64>,
    /// The bucket, remainder or number that came of it, for kinds that have one.
    pub bucket: Option<u64>,
    /// The entry of the map that gives the bucket, the range or the period to the shard.
    pub map_entry: Option<String>,
    /// The shard.
    #[serde(serialize_with = "as_text")]
    pub shard: ShardName,
    /// The [spread](crate::Placement::spread).
    pub spread: u64,
    /// The keyspace's tables: each logical name, and the physical one that holds the key.
    pub tables: Vec<(String, String)>,
    /// The URL of the shard's primary node, without its password.
    pub node: String,
    /// Whether the shard takes work at the moment: `open`, `read-only` or `offline`.
    pub state: &'static str,
}

/// One step of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ExplainStep {
    /// What was computed.
    pub name: String,
    /// What came out.
    pub value: String,
}

fn as_text<S: serde::Serializer>(shard: &ShardName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(shard.as_str())
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            writeln!(f, "{name:<12} {value}")
        };
        line(
            f,
            "keyspace",
            &format_args!("{}, {}", self.keyspace, self.fingerprint),
        )?;
        line(f, "key", &format_args!("{}, {}", self.key, self.key_type))?;
        if let Some(normalized) = &self.normalized {
            line(f, "normalized", normalized)?;
        }
        line(f, "canonical", &self.canonical)?;
        line(f, "algorithm", &self.algorithm)?;
        for step in &self.steps {
            line(f, &step.name, &step.value)?;
        }
        if let Some(entry) = &self.map_entry {
            line(f, "map entry", entry)?;
        }
        line(f, "shard", &self.shard)?;
        line(f, "spread", &self.spread)?;
        for (logical, physical) in &self.tables {
            line(f, "table", &format_args!("{logical} is {physical}"))?;
        }
        write!(f, "{:<12} {} (primary, {})", "node", self.node, self.state)
    }
}

/// What an algorithm has to say about a key.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) steps: Vec<ExplainStep>,
    pub(super) hash: Option<u64>,
    pub(super) bucket: Option<u64>,
    pub(super) map_entry: Option<String>,
}

impl Story {
    pub(super) fn step(&mut self, name: &str, value: impl fmt::Display) {
        self.steps.push(ExplainStep {
            name: name.to_owned(),
            value: value.to_string(),
        });
    }

    fn hash(&mut self, key: KeyValue<'_>) -> u64 {
        let hash = key.hash(0);
        self.hash = Some(hash);
        self.step("hash", format_args!("{hash:#018x}, xxh3-64 with seed 0"));
        hash
    }

    fn seeded_spread(&mut self) {
        self.step("spread from", "xxh3-64 with seed 1");
    }
}

impl Rule {
    /// How a key comes to its place; what the keyspace and the topology know is left empty.
    pub(crate) fn explain(&self, key: &ShardKey<'_>) -> Result<Explanation, PlaceError> {
        // The answer itself is never computed in another way than everywhere else.
        let placement = self.place(key)?;
        let Ok(value) = key.value() else {
            return Err(PlaceError::Null);
        };
        let mut story = Story::default();
        let (normalized, canonical) = self.steps.normalized(value, |value| {
            self.tell(value, &mut story);
            let shown = value.to_key().to_string();
            (shown, hexadecimal(&value.canonical_bytes()))
        });
        let key = key.to_string();
        Ok(Explanation {
            keyspace: String::new(),
            fingerprint: String::new(),
            normalized: (normalized != key).then_some(normalized),
            key,
            key_type: self.key.to_string(),
            canonical,
            algorithm: self.algorithm_name(),
            steps: story.steps,
            hash: story.hash,
            bucket: story.bucket,
            map_entry: story.map_entry,
            shard: placement.shard(),
            spread: placement.spread(),
            tables: Vec::new(),
            node: String::new(),
            state: "",
        })
    }

    fn tell(&self, key: KeyValue<'_>, story: &mut Story) {
        let name = |at: usize| self.shards.get(at).map_or("", |shard| shard.as_str());
        match &self.algorithm {
            Algorithm::Hash(algorithm) => {
                let hash = story.hash(key);
                let (bucket, spread, range) = algorithm.bucket(hash);
                story.bucket = Some(bucket);
                story.step(
                    "bucket",
                    format_args!("{bucket} of {}, hash modulo buckets", algorithm.buckets()),
                );
                story.step(
                    "spread from",
                    format_args!("{spread}, hash divided by buckets"),
                );
                story.map_entry = range.map(|(range, owner)| {
                    format!(
                        "buckets {}..{} belong to {}",
                        range.start,
                        range.end,
                        name(owner)
                    )
                });
            }
            Algorithm::Modulo(modulo) => {
                if let Some(spot) = modulo.place(key) {
                    story.bucket = Some(spot.shard as u64);
                    let count = self.shards.len();
                    story.step(
                        "remainder",
                        format_args!("{} of {count}, Euclidean", spot.shard),
                    );
                    story.step("spread from", "the quotient, Euclidean");
                    story.map_entry = Some(entry_at(spot.shard, name(spot.shard)));
                }
            }
            Algorithm::List(_) => {
                story.map_entry = Some("the key is listed".to_owned());
                story.seeded_spread();
            }
            Algorithm::Jump(_) => {
                let hash = story.hash(key);
                let count = u32::try_from(self.shards.len()).unwrap_or(u32::MAX);
                let bucket = jump::jump_consistent_hash(hash, count);
                story.bucket = Some(bucket.into());
                story.step("jump", format_args!("{bucket} of {count}"));
                story.map_entry = Some(entry_at(bucket as usize, name(bucket as usize)));
                story.seeded_spread();
            }
            Algorithm::Ring(ring) => {
                let hash = story.hash(key);
                if let Some((owner, point)) = ring.owner(hash) {
                    story.step("point", format_args!("{point:#018x}, the next on the ring"));
                    story.map_entry = Some(format!("the point belongs to {}", name(owner)));
                }
                story.seeded_spread();
            }
            Algorithm::Range(range) => {
                let point = super::point::point(key);
                let segments = range.segments().into_iter();
                let found =
                    segments
                        .filter(|(_, _, owner)| owner.is_some())
                        .find(|(from, until, _)| {
                            from.as_ref().is_none_or(|from| *from <= point)
                                && until.as_ref().is_none_or(|until| point < *until)
                        });
                if let Some((from, until, Some(owner))) = found {
                    let end = |end: Option<_>| {
                        end.map_or(String::new(), |end| prune::shown(&end, self.key))
                    };
                    story.map_entry = Some(format!(
                        "keys {}..{} belong to {}",
                        end(from),
                        end(until),
                        name(owner)
                    ));
                }
                story.seeded_spread();
            }
            Algorithm::Date(date) => date.tell(key, story, name),
            Algorithm::Compat(compat) => compat.tell(key, story, name),
            Algorithm::Custom(custom) => {
                story.step("named", &custom.spec.name);
                for (name, value) in &custom.spec.options {
                    story.step("option", format_args!("{name} = {value}"));
                }
            }
        }
    }
}

pub(super) fn entry_at(position: usize, shard: &str) -> String {
    format!("position {position} of the list of shards is {shard}")
}

fn hexadecimal(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let mut text = "0x".to_owned();
    for byte in bytes.iter().take(SHOWN) {
        text += &format!("{byte:02x}");
    }
    if bytes.len() > SHOWN {
        text += "..";
    }
    text
}
