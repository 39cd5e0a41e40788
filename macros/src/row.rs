//! What the attributes of a struct say about its rows.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, Fields, Index, LitStr, Member, Path, Result,
};

/// A struct whose rows have a shard key.
pub(crate) struct Row {
    pub(crate) keyspace: LitStr,
    /// `.user_id`, as it stands after `self`.
    pub(crate) key: TokenStream,
    pub(crate) key_span: Span,
    pub(crate) table: Option<Path>,
    pub(crate) krate: TokenStream,
}

impl Row {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let fields = fields(input)?;
        let mut keyspace = None;
        let mut table = None;
        let mut krate = quote!(::diesel_sharded);
        for attribute in named(&input.attrs, "sharded") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("keyspace") {
                    let text: LitStr = meta.value()?.parse()?;
                    if keyspace.replace(text).is_some() {
                        return Err(meta.error("`keyspace` is given twice"));
                    }
                } else if meta.path.is_ident("table") {
                    table = Some(meta.value()?.parse::<Path>()?);
                } else if meta.path.is_ident("crate") {
                    krate = meta.value()?.parse::<Path>()?.into_token_stream();
                } else {
                    return Err(meta.error(
                        "`#[sharded(..)]` knows `keyspace = \"..\"`, `table = ..` and `crate = ..`",
                    ));
                }
                Ok(())
            })?;
        }
        let Some(keyspace) = keyspace else {
            return Err(Error::new(
                input.ident.span(),
                "say which keyspace the rows live in: `#[sharded(keyspace = \"..\")]`",
            ));
        };
        if table.is_none() {
            table = diesel_table(&input.attrs);
        }
        let (key, key_span) = key(input, fields)?;
        Ok(Self {
            keyspace,
            key,
            key_span,
            table,
            krate,
        })
    }
}

/// Where the crate is, as `#[sharded(crate = ..)]` says.
pub(crate) fn krate(input: &DeriveInput) -> Result<TokenStream> {
    let mut krate = quote!(::diesel_sharded);
    for attribute in named(&input.attrs, "sharded") {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("of a newtype `#[sharded(..)]` knows `crate = ..` alone"));
            }
            krate = meta.value()?.parse::<Path>()?.into_token_stream();
            Ok(())
        })?;
    }
    Ok(krate)
}

/// The fields of a newtype.
pub(crate) fn newtype_fields(input: &DeriveInput) -> Result<&Fields> {
    match &input.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(_) | Data::Union(_) => Err(Error::new(
            input.ident.span(),
            "only a struct of one field is a key because its field is one; implement `ToShardKey` by hand for anything else",
        )),
    }
}

/// The fields of a struct; nothing else is a row.
pub(crate) fn fields(input: &DeriveInput) -> Result<&Fields> {
    match &input.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(data) => Err(Error::new(
            data.enum_token.span(),
            "only a struct can say where it lives: implement the trait by hand for an enum",
        )),
        Data::Union(data) => Err(Error::new(
            data.union_token.span(),
            "only a struct can say where it lives",
        )),
    }
}

fn named<'a>(attributes: &'a [Attribute], name: &'a str) -> impl Iterator<Item = &'a Attribute> {
    attributes
        .iter()
        .filter(move |attribute| attribute.path().is_ident(name))
}

/// The one field that is marked, and the path from there.
fn key(input: &DeriveInput, fields: &Fields) -> Result<(TokenStream, Span)> {
    if let Some(stray) = named(&input.attrs, "shard_key").next() {
        return Err(Error::new(
            stray.span(),
            "`#[shard_key]` stands at the field that holds the key",
        ));
    }
    let mut found = None;
    for (position, field) in fields.iter().enumerate() {
        for mark in named(&field.attrs, "shard_key") {
            if found.is_some() {
                return Err(Error::new(
                    mark.span(),
                    "a row has one shard key; for one of several parts mark one field whose type is a tuple",
                ));
            }
            found = Some(marked(mark, field, position)?);
        }
    }
    found.ok_or_else(|| {
        Error::new(
            input.ident.span(),
            "mark the field that holds the key: `#[shard_key]`",
        )
    })
}

fn marked(mark: &Attribute, field: &Field, position: usize) -> Result<(TokenStream, Span)> {
    let own = match &field.ident {
        Some(name) => Member::Named(name.clone()),
        None => Member::Unnamed(Index::from(position)),
    };
    if matches!(mark.meta, syn::Meta::Path(_)) {
        return Ok((quote!(.#own), field.ty.span()));
    }
    let mut path: Option<LitStr> = None;
    mark.parse_nested_meta(|meta| {
        if !meta.path.is_ident("path") {
            return Err(meta.error("`#[shard_key(..)]` knows `path = \"field.field\"`"));
        }
        path = Some(meta.value()?.parse()?);
        Ok(())
    })?;
    let Some(path) = path else {
        return Err(Error::new(
            mark.span(),
            "write `#[shard_key]` or `#[shard_key(path = \"..\")]`",
        ));
    };
    let members = members(&path)?;
    if members.first() != Some(&own) {
        return Err(Error::new(
            path.span(),
            format!(
                "the path is written from the struct on, so here it begins with `{}`",
                own.to_token_stream()
            ),
        ));
    }
    Ok((quote!(#(.#members)*), path.span()))
}

/// `order.user_id` as what it is in Rust, at the span of the text.
fn members(path: &LitStr) -> Result<Vec<Member>> {
    let bad = || {
        Error::new(
            path.span(),
            "a path is field names with dots between them, such as \"order.user_id\"",
        )
    };
    path.value()
        .split('.')
        .map(|part| {
            let expr: Expr = syn::parse_str(&format!("x.{part}")).map_err(|_| bad())?;
            let Expr::Field(field) = expr else {
                return Err(bad());
            };
            Ok(match field.member {
                Member::Named(name) => {
                    Member::Named(proc_macro2::Ident::new(&name.to_string(), path.span()))
                }
                Member::Unnamed(index) => Member::Unnamed(index),
            })
        })
        .collect()
}

/// The table of `#[diesel(table_name = ..)]`, if there is one. Whatever else stands there is
/// Diesel's business.
fn diesel_table(attributes: &[Attribute]) -> Option<Path> {
    let mut table = None;
    for attribute in named(attributes, "diesel") {
        let _ = attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("table_name") {
                table = Some(meta.value()?.parse::<Path>()?);
            } else if meta.input.peek(syn::Token![=]) {
                let _: Expr = meta.value()?.parse()?;
            } else if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                let _: TokenStream = content.parse()?;
            }
            Ok(())
        });
    }
    table
}
