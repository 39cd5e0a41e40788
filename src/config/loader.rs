//! From a file to a checked [`Config`]: layers, then the schema, then the validation.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::value::{Dict, Value};

use super::algorithms::Algorithms;
use super::env::{self, Environment};
use super::origin::{Origins, is_within, of_variable};
use super::reader::Reader;
use super::source::{Format, Layer, untagged};
use super::{Config, schema};
use crate::algorithm::{AlgorithmOptions, ShardingAlgorithm};
use crate::error::{ConfigErrors, ConfigProblem, Error};
use crate::topology::{Problem, TopologySpec, unknown, validate};

const FILE: &str = "diesel-sharded.toml";

/// Loads a [`Config`], with a profile or an environment of one's own choosing.
///
/// ```
/// use diesel_sharded::{Config, Format};
///
/// let text = r#"
///     [shards.a]
///     url = "postgres://app@db/orders"
///
///     [profiles.dev.shards.a]
///     url = "postgres://app@localhost/orders"
/// "#;
/// let config = Config::loader()
///     .environment([("DIESEL_SHARDED_SHARDS__A__PASSWORD", "0123")])
///     .profile("dev")
///     .text(text, Format::Toml)?;
/// assert_eq!(config.profile(), Some("dev"));
/// # Ok::<(), diesel_sharded::Error>(())
/// ```
#[must_use]
pub struct ConfigLoader {
    profile: Option<String>,
    environment: Environment,
    algorithms: Algorithms,
}

impl std::fmt::Debug for ConfigLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An environment is full of secrets.
        f.debug_struct("ConfigLoader")
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// What the layers are made of so far.
struct Layers {
    base: Figment,
    /// The origin of what was set nowhere.
    origin: String,
    problems: Vec<ConfigProblem>,
}

impl ConfigLoader {
    pub(super) fn new() -> Self {
        Self {
            profile: None,
            environment: Environment::of_process(),
            algorithms: Algorithms::default(),
        }
    }

    /// Says what a custom algorithm's name means: how it is made of its options. An `Err` is a
    /// problem of the configuration, reported with the others.
    ///
    /// ```
    /// use diesel_sharded::{Config, CustomPlace, Format, ShardKey, ShardingAlgorithm};
    ///
    /// #[derive(Debug)]
    /// struct ByDigits(u32);
    ///
    /// impl ShardingAlgorithm for ByDigits {
    ///     fn place(&self, key: &ShardKey<'_>, shards: usize) -> Option<CustomPlace> {
    ///         let ShardKey::Integer(number) = key else { return None };
    ///         let digits = usize::try_from(number.checked_ilog(self.0.into()).unwrap_or(0)).ok()?;
    ///         Some(CustomPlace { shard: digits % shards, spread: 0 })
    ///     }
    /// }
    ///
    /// let text = r#"
    ///     [shards.a]
    ///     url = "postgres://app@db-0/orders"
    ///     [shards.b]
    ///     url = "postgres://app@db-1/orders"
    ///
    ///     [keyspaces.orders]
    ///     shards = ["a", "b"]
    ///     algorithm = { kind = "custom", name = "by-digits", options = { base = "10" } }
    /// "#;
    /// let config = Config::loader()
    ///     .algorithm("by-digits", |options| match options.get("base").map(|base| base.parse()) {
    ///         Some(Ok(base)) if base > 1 => Ok(ByDigits(base)),
    ///         _ => Err("the option `base` is a number above 1".to_owned()),
    ///     })
    ///     .text(text, Format::Toml)?;
    /// assert_eq!(config.topology()?.locate("orders", &42)?.shard(), "b");
    /// # Ok::<(), diesel_sharded::Error>(())
    /// ```
    pub fn algorithm<A: ShardingAlgorithm>(
        mut self,
        name: impl Into<String>,
        make: impl Fn(&AlgorithmOptions) -> Result<A, String> + Send + Sync + 'static,
    ) -> Self {
        self.algorithms.add(name.into(), make);
        self
    }

    /// Takes custom algorithms that this program does not know: it can then do everything with the
    /// shards but place a key ([`Error::NotCovered`]). For tools; an application never wants it.
    pub fn accept_unknown_algorithms(mut self) -> Self {
        self.algorithms.tolerant = true;
        self
    }

    /// Chooses a profile. Defaults to the one that `DIESEL_SHARDED_PROFILE` names, or none.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Takes these variables for the whole environment. Defaults to that of the process.
    pub fn environment<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.environment = Environment::of(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        self
    }

    /// Loads as [`Config::load`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong.
    pub fn load(self) -> Result<Config, Error> {
        let origin = || of_variable(env::CONFIG);
        let path = match self.environment.get(env::CONFIG) {
            Ok(Some(path)) if path.is_empty() => {
                return refuse(origin(), "is empty: unset it, or name a file");
            }
            Ok(Some(path)) => PathBuf::from(path),
            Ok(None) => match std::env::current_dir().ok().as_deref().and_then(find_file) {
                Some(path) => path,
                None => {
                    return refuse(
                        FILE.to_owned(),
                        "there is no such file here or in a folder above: make one, or name another in DIESEL_SHARDED_CONFIG",
                    );
                }
            },
            Err(_) => return refuse(origin(), "is not UTF-8: name the file in UTF-8"),
        };
        self.file(path)
    }

    /// Loads as [`Config::from_file`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Config, Error> {
        let path = path.as_ref();
        let origin = path.display().to_string();
        let Some(format) = Format::of(path) else {
            return refuse(
                origin,
                "the extension says no format: use .toml, .yaml, .yml or .json",
            );
        };
        let text = match std::fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => return refuse(origin, "is not UTF-8"),
            Err(error) => return refuse(origin, &format!("the file cannot be read: {error}")),
        };
        let mut config = self.layered(&text, format, origin, |dict| {
            Layer::file(format, path.to_owned(), dict)
        })?;
        config.file = Some(path.to_owned());
        Ok(config)
    }

    /// Loads as [`Config::from_str`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong.
    pub fn text(self, text: &str, format: Format) -> Result<Config, Error> {
        let origin = format!("the {} text", format.name());
        self.layered(text, format, origin.clone(), |dict| {
            Layer::text(format, origin, dict)
        })
    }

    /// Loads as [`Config::from_figment`] does; the environment is looked at only where a password
    /// says `{ env = ".." }`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] with everything that is wrong.
    pub fn figment(self, figment: Figment) -> Result<Config, Error> {
        let profile = self.profile.clone();
        self.finish(
            Layers {
                base: figment,
                origin: "the figment".to_owned(),
                problems: Vec::new(),
            },
            profile,
            false,
        )
    }

    fn layered(
        self,
        text: &str,
        format: Format,
        origin: String,
        layer: impl FnOnce(Dict) -> Layer,
    ) -> Result<Config, Error> {
        let at_origin = |problems: Vec<Problem>| -> Vec<ConfigProblem> {
            let at = |problem: Problem| problem.at(|_| origin.clone());
            problems.into_iter().map(at).collect()
        };
        let (dict, problems) = match format.parse(text) {
            Ok((dict, problems)) => (dict, at_origin(problems)),
            Err(problems) => return Err(ConfigErrors(at_origin(problems)).into()),
        };
        let mut layers = Layers {
            base: Figment::from(layer(dict)),
            origin,
            problems,
        };
        let profile = match (&self.profile, self.environment.get(env::PROFILE)) {
            (Some(name), _) => Some(name.clone()),
            (None, Ok(Some(name))) if !name.is_empty() => Some(name),
            (None, Ok(None)) => None,
            (None, Ok(Some(_))) => {
                layers.problems.push(ConfigProblem {
                    origin: of_variable(env::PROFILE),
                    key: String::new(),
                    message: "is empty: unset it, or name a profile".to_owned(),
                });
                None
            }
            (None, Err(_)) => {
                layers.problems.push(ConfigProblem {
                    origin: of_variable(env::PROFILE),
                    key: String::new(),
                    message: "is not UTF-8".to_owned(),
                });
                None
            }
        };
        self.finish(layers, profile, true)
    }

    fn finish(
        self,
        layers: Layers,
        profile: Option<String>,
        with_environment: bool,
    ) -> Result<Config, Error> {
        let Layers {
            base,
            origin,
            mut problems,
        } = layers;
        let written = merged(&base)?;
        let base = match &profile {
            Some(name) => match choose_profile(&written, name) {
                Ok(dict) => {
                    let at =
                        Origins::new(base.clone(), origin.clone()).of(&format!("profiles.{name}"));
                    let origin = format!("{at} [profiles.{name}]");
                    base.merge(Layer::over(format!("profile {name}"), origin, dict))
                }
                Err(message) => {
                    problems.push(ConfigProblem {
                        origin: origin.clone(),
                        key: "profiles".to_owned(),
                        message,
                    });
                    base
                }
            },
            None => base,
        };
        let mut origins = Origins::new(base.clone(), origin);
        let figment = if with_environment {
            let overlay = env::overlay(&self.environment, &merged(&base)?);
            problems.extend(overlay.problems);
            origins.add_variables(overlay.variables);
            base.merge(Layer::over(
                "environment",
                "the environment".to_owned(),
                overlay.dict,
            ))
        } else {
            base
        };

        let tree = merged(&figment)?;
        let mut reader = Reader::new(&self.environment, &self.algorithms);
        let spec = schema::root(&mut reader, "", &tree);
        read_other_profiles(&mut reader, &tree, profile.as_deref());
        let (found, unreadable) = (reader.problems, reader.unreadable);
        let warnings = match validate(&spec) {
            Ok(snapshot) => snapshot.warnings,
            Err(mut later) => {
                later.retain(|problem| {
                    !follows(problem, &found)
                        && !unreadable.iter().any(|key| is_within(&problem.key, key))
                });
                problems.extend(located(found, &origins));
                problems.extend(located(later, &origins));
                return Err(ConfigErrors(problems).into());
            }
        };
        problems.extend(located(found, &origins));
        if !problems.is_empty() {
            return Err(ConfigErrors(problems).into());
        }
        Ok(Config {
            figment,
            warnings: located(warnings, &origins).collect(),
            origins,
            spec,
            profile,
            file: None,
        })
    }
}

fn located(
    problems: Vec<Problem>,
    origins: &Origins,
) -> impl Iterator<Item = ConfigProblem> + use<'_> {
    problems
        .into_iter()
        .map(|problem| problem.at(|key| origins.of(key)))
}

/// Reads the profiles that were not chosen, so that a mistake in one is found before its day comes.
fn read_other_profiles(reader: &mut Reader<'_>, tree: &Dict, chosen: Option<&str>) {
    let Some(profiles) = tree.get("profiles") else {
        return;
    };
    reader.partial = true;
    for (name, value) in reader.entries("profiles", profiles) {
        let path = format!("profiles.{name}");
        match value {
            // The chosen one was read as part of the whole.
            Value::Dict(..) if chosen == Some(name) => {}
            Value::Dict(_, dict) => {
                let _: TopologySpec = schema::root(reader, &path, dict);
            }
            Value::Empty(..) => {}
            _ => reader.problem(path, "a table is expected here"),
        }
    }
    reader.partial = false;
}

/// Whether a problem of the validation is only the shadow of one that was found while reading.
fn follows(problem: &Problem, found: &[Problem]) -> bool {
    let key = &problem.key;
    found.iter().any(|cause| {
        let same_place = is_within(key, &cause.key)
            // A list with an unreadable entry has gaps.
            || (is_within(&cause.key, key) && key.split('.').count() > 2);
        let keyspace = cause.key.split('.').take(2).collect::<Vec<_>>().join(".");
        let caused_by = |part: &str| is_within(&cause.key, &format!("{keyspace}.{part}"));
        let about = |part: &str| is_within(key, &format!("{keyspace}.{part}"));
        let same_rule = cause.key.starts_with("keyspaces.")
            && ((caused_by("shards") || caused_by("algorithm")) && about("algorithm")
                // Where the type of the keys is unknown, only what is said of keys is doubtful.
                || (caused_by("key") || caused_by("normalize"))
                    && (about("algorithm.values") || about("normalize")));
        let sizes = key == "budget"
            && (cause.key.split('.').any(|part| part == "pool") || is_within(&cause.key, "pools"));
        // Without the table of shards, or keyspaces, every name is unknown.
        let no_names = cause.key == "shards" && problem.message.starts_with("unknown shard")
            || cause.key == "keyspaces" && problem.message.starts_with("unknown keyspace");
        !cause.key.is_empty() && (same_place || same_rule || sizes || no_names)
    })
}

/// All values of a figment, with their tags.
pub(super) fn merged(figment: &Figment) -> Result<Dict, Error> {
    let failed = "a provider of the figment failed; its error may show values and is not repeated here: extract the figment by itself to see it";
    match figment.find_value("") {
        Ok(Value::Dict(_, dict)) => Ok(dict),
        _ => refuse("the figment".to_owned(), failed),
    }
}

fn choose_profile(tree: &Dict, name: &str) -> Result<Dict, String> {
    let profiles = match tree.get("profiles") {
        Some(Value::Dict(_, profiles)) => Some(profiles),
        _ => None,
    };
    match profiles.and_then(|profiles| profiles.get(name)) {
        Some(Value::Dict(_, dict)) => Ok(untagged(dict)),
        Some(Value::Empty(..)) => Ok(Dict::new()),
        _ => {
            let known: Vec<&str> = profiles
                .into_iter()
                .flat_map(|profiles| profiles.keys().map(String::as_str))
                .collect();
            Err(unknown("profile", name, &known))
        }
    }
}

/// The configuration file of a folder, or of the nearest folder above that has one.
pub(super) fn find_file(folder: &Path) -> Option<PathBuf> {
    folder
        .ancestors()
        .map(|folder| folder.join(FILE))
        .find(|path| path.is_file())
}

fn refuse<T>(origin: String, message: &str) -> Result<T, Error> {
    Err(ConfigErrors(vec![ConfigProblem {
        origin,
        key: String::new(),
        message: message.to_owned(),
    }])
    .into())
}
