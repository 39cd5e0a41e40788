//! What stands in the parentheses of `#[routed(..)]` and `#[sharded_transaction(..)]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitStr, Path, Result, Token};

/// Whose work it is.
pub(crate) enum Target {
    /// The shard that owns a key.
    Key { keyspace: Expr, key: Expr },
    /// A shard by name.
    Shard { shards: Expr, shard: Expr },
}

/// Which attribute is being read; it decides what else may stand there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    Routed,
    Transaction,
}

impl Attribute {
    fn known(self) -> &'static [&'static str] {
        match self {
            Self::Routed => &["keyspace", "key", "shards", "shard", "workload", "crate"],
            Self::Transaction => &[
                "keyspace",
                "key",
                "shards",
                "shard",
                "isolation",
                "read_only",
                "immediate",
                "retries",
                "crate",
            ],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Routed => "routed",
            Self::Transaction => "sharded_transaction",
        }
    }
}

/// Everything that was asked for.
pub(crate) struct Arguments {
    pub(crate) target: Target,
    pub(crate) krate: TokenStream,
    pub(crate) workload: Option<Expr>,
    /// The name of a variant of `Isolation`, at the span of the text that asked for it.
    pub(crate) isolation: Option<Ident>,
    pub(crate) read_only: bool,
    pub(crate) immediate: bool,
    pub(crate) retries: Option<Expr>,
}

/// One argument: its name, and its value where it has one.
struct Argument {
    name: Ident,
    value: Option<Expr>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        // `crate` is a keyword, so an ordinary identifier does not match it.
        let name = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Self { name, value })
    }
}

struct List(Vec<Argument>);

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let list = input.parse_terminated(Argument::parse, Token![,])?;
        Ok(Self(list.into_iter().collect()))
    }
}

impl Arguments {
    /// Reads the arguments; all that is wrong with them is reported at once.
    pub(crate) fn parse(attribute: Attribute, tokens: TokenStream) -> Result<Self> {
        let List(list) = syn::parse2(tokens)?;
        let mut wrong = Wrong::default();
        let mut found = Found::default();
        for argument in list {
            found.take(attribute, argument, &mut wrong);
        }
        let target = found.target(attribute, &mut wrong);
        let krate = found.krate(&mut wrong);
        let isolation = found.isolation(&mut wrong);
        wrong.into_result()?;
        let Some(target) = target else {
            return Err(Error::new(Span::call_site(), attribute.usage()));
        };
        Ok(Self {
            target,
            krate,
            isolation,
            workload: found.workload,
            read_only: found.read_only,
            immediate: found.immediate,
            retries: found.retries,
        })
    }
}

impl Attribute {
    fn usage(self) -> String {
        format!(
            "say where the work is to go: `#[{0}(keyspace = .., key = ..)]` or `#[{0}(shards = .., shard = ..)]`",
            self.name()
        )
    }
}

/// Errors, collected.
#[derive(Default)]
struct Wrong(Option<Error>);

impl Wrong {
    fn add(&mut self, span: Span, message: impl std::fmt::Display) {
        let error = Error::new(span, message);
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

#[derive(Default)]
struct Found {
    seen: Vec<Ident>,
    keyspace: Option<Expr>,
    key: Option<Expr>,
    shards: Option<Expr>,
    shard: Option<Expr>,
    workload: Option<Expr>,
    isolation: Option<Expr>,
    retries: Option<Expr>,
    krate: Option<Expr>,
    read_only: bool,
    immediate: bool,
}

impl Found {
    fn take(&mut self, attribute: Attribute, argument: Argument, wrong: &mut Wrong) {
        let Argument { name, value } = argument;
        let text = name.to_string();
        if !attribute.known().contains(&text.as_str()) {
            wrong.add(
                name.span(),
                format!(
                    "unknown argument `{text}`; `#[{}]` knows {}",
                    attribute.name(),
                    attribute.known().join(", ")
                ),
            );
            return;
        }
        if self.seen.contains(&name) {
            wrong.add(name.span(), format!("`{text}` is given twice"));
            return;
        }
        self.seen.push(name.clone());
        let switch = match text.as_str() {
            "read_only" => Some(&mut self.read_only),
            "immediate" => Some(&mut self.immediate),
            _ => None,
        };
        if let Some(switch) = switch {
            match value {
                None => *switch = true,
                Some(value) => wrong.add(
                    value.span(),
                    format!("`{text}` takes no value; leave it out for the opposite"),
                ),
            }
            return;
        }
        let Some(value) = value else {
            wrong.add(
                name.span(),
                format!("`{text}` needs a value: `{text} = ..`"),
            );
            return;
        };
        let place = match text.as_str() {
            "keyspace" => &mut self.keyspace,
            "key" => &mut self.key,
            "shards" => &mut self.shards,
            "shard" => &mut self.shard,
            "workload" => &mut self.workload,
            "isolation" => &mut self.isolation,
            "retries" => &mut self.retries,
            _ => &mut self.krate,
        };
        *place = Some(value);
    }

    fn span(&self, name: &str) -> Span {
        self.seen
            .iter()
            .find(|seen| *seen == name)
            .map_or_else(Span::call_site, Ident::span)
    }

    fn target(&mut self, attribute: Attribute, wrong: &mut Wrong) -> Option<Target> {
        let parts = (
            self.keyspace.take(),
            self.key.take(),
            self.shards.take(),
            self.shard.take(),
        );
        match parts {
            (Some(keyspace), Some(key), None, None) => return Some(Target::Key { keyspace, key }),
            (None, None, Some(shards), Some(shard)) => {
                return Some(Target::Shard { shards, shard });
            }
            (Some(_), None, None, None) => {
                wrong.add(
                    self.span("keyspace"),
                    "`keyspace` needs a `key = ..` beside it",
                );
            }
            (None, Some(_), None, None) => {
                wrong.add(self.span("key"), "`key` needs a `keyspace = ..` beside it");
            }
            (None, None, Some(_), None) => {
                wrong.add(
                    self.span("shards"),
                    "`shards` needs a `shard = ..` beside it",
                );
            }
            (None, None, None, Some(_)) => {
                wrong.add(
                    self.span("shard"),
                    "`shard` needs a `shards = ..` beside it",
                );
            }
            (None, None, None, None) => wrong.add(Span::call_site(), attribute.usage()),
            _ => wrong.add(
                Span::call_site(),
                format!("a key or a shard, not both: {}", attribute.usage()),
            ),
        }
        None
    }

    fn krate(&mut self, wrong: &mut Wrong) -> TokenStream {
        match self.krate.take() {
            None => quote!(::diesel_sharded),
            Some(Expr::Path(path)) if path.qself.is_none() => {
                let path: Path = path.path;
                quote!(#path)
            }
            Some(other) => {
                wrong.add(
                    other.span(),
                    "`crate` takes a path, such as `crate = my_crate::sharded`",
                );
                quote!(::diesel_sharded)
            }
        }
    }

    fn isolation(&mut self, wrong: &mut Wrong) -> Option<Ident> {
        const LEVELS: &str = "\"read committed\", \"repeatable read\" or \"serializable\"";
        let value = self.isolation.take()?;
        let Some(text) = text(&value) else {
            wrong.add(
                value.span(),
                format!("`isolation` takes one of the texts {LEVELS}"),
            );
            return None;
        };
        let variant = match text.value().as_str() {
            "read committed" => "ReadCommitted",
            "repeatable read" => "RepeatableRead",
            "serializable" => "Serializable",
            other => {
                wrong.add(
                    text.span(),
                    format!("`{other}` is no isolation level; write {LEVELS}"),
                );
                return None;
            }
        };
        Some(Ident::new(variant, text.span()))
    }
}

fn text(expr: &Expr) -> Option<&LitStr> {
    match expr {
        Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}
