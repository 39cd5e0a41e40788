//! `#[sharded_transaction(..)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericParam, Generics, Lifetime, PatType, Result, Type, WherePredicate};

use crate::arguments::{Arguments, Attribute, Target};
use crate::attempt;
use crate::routed::{Kind, asked, returns};
use crate::shape::{Body, Function, Output};

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut function: Function = syn::parse2(item)?;
    let arguments = Arguments::parse(Attribute::Transaction, arguments)?;
    let connection = take_connection(&mut function)?;
    let shape = function.shape()?;
    let output = &shape.output;
    let clones = match arguments.retries {
        Some(_) => attempt::clones(&arguments.krate, &mut function, &shape.body)?,
        None => TokenStream::new(),
    };
    let body = match &shape.body {
        Body::Blocking(block) => {
            let check = returns(&arguments.krate, output);
            let builder = arguments.builder(Kind::Blocking);
            let arrow = output.arrow();
            let (given, binding) = given(&connection);
            let statements = &block.stmts;
            quote! {
                #check
                #builder.run(|#given| #arrow { #binding #clones #(#statements)* })
            }
        }
        Body::Async(statements) => in_future(
            &arguments,
            output,
            &connection,
            &clones,
            &quote!(#(#statements)*),
        ),
        Body::Future {
            before,
            boxed,
            future,
        } => {
            let body = quote!(#(#future)*);
            let inner = in_future(&arguments, output, &connection, &clones, &body);
            quote! { #(#before)* #boxed (async move { #inner }) }
        }
    };
    Ok(function.with_body(&body))
}

fn in_future(
    arguments: &Arguments,
    output: &Output,
    connection: &PatType,
    clones: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let check = returns(&arguments.krate, output);
    let builder = arguments.builder(Kind::Async);
    let arrow = output.arrow();
    let (given, binding) = given(connection);
    quote! {
        #check
        #builder.run(async |#given| #arrow { #binding #clones #body }).await
    }
}

/// The closure's parameter, and the statement that makes the function's own of it: where the types
/// differ, that is said at the type which the user wrote.
fn given(connection: &PatType) -> (Ident, TokenStream) {
    let PatType { attrs, pat, ty, .. } = connection;
    let name = Ident::new("connection", Span::mixed_site().located_at(ty.span()));
    let binding = quote! { #(#attrs)* let #pat: #ty = #name; };
    (name, binding)
}

/// Takes the parameter marked `#[conn]` out of the signature: the caller does not pass it.
fn take_connection(function: &mut Function) -> Result<PatType> {
    let mut found: Option<PatType> = None;
    let mut kept = syn::punctuated::Punctuated::new();
    for input in std::mem::take(&mut function.signature.inputs) {
        match input {
            FnArg::Typed(mut parameter) if is_marked(&parameter) => {
                if found.is_some() {
                    return Err(Error::new(
                        parameter.span(),
                        "a transaction has one connection: mark one parameter with `#[conn]`",
                    ));
                }
                let (marks, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut parameter.attrs)
                    .into_iter()
                    .partition(|attribute| attribute.path().is_ident("conn"));
                for mark in marks {
                    mark.meta.require_path_only()?;
                }
                parameter.attrs = kept;
                forget_lifetime(&mut parameter.ty, &mut function.signature.generics);
                check_type(&parameter.ty)?;
                found = Some(parameter);
            }
            other => kept.push(other),
        }
    }
    function.signature.inputs = kept;
    found.ok_or_else(|| {
        Error::new(
            function.signature.paren_token.span.join(),
            "mark the parameter that is to be the connection: `#[conn] conn: &mut ShardedConnection<..>`; callers do not pass it",
        )
    })
}

/// Whether a parameter is marked.
fn is_marked(parameter: &PatType) -> bool {
    parameter
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("conn"))
}

/// `async_trait` gives each reference of a signature a lifetime of its own, `'life0`, `'life1` and so
/// on. The connection's goes with the parameter.
fn forget_lifetime(ty: &mut Type, generics: &mut Generics) {
    let is = |lifetime: &Lifetime, name: &str| lifetime.ident == name;
    let made_here = generics
        .lifetimes()
        .any(|known| is(&known.lifetime, "async_trait"));
    let Type::Reference(reference) = ty else {
        return;
    };
    let Some(own) = reference.lifetime.clone().filter(|own| {
        let number = own.ident.to_string();
        let number = number.strip_prefix("life").map(str::to_owned);
        made_here && number.is_some_and(|number| number.parse::<u32>().is_ok())
    }) else {
        return;
    };
    reference.lifetime = None;
    generics.params = std::mem::take(&mut generics.params)
        .into_iter()
        .filter(|known| !matches!(known, GenericParam::Lifetime(known) if known.lifetime == own))
        .collect();
    if let Some(bounds) = &mut generics.where_clause {
        bounds.predicates = std::mem::take(&mut bounds.predicates)
            .into_iter()
            .filter(
                |bound| !matches!(bound, WherePredicate::Lifetime(bound) if bound.lifetime == own),
            )
            .collect();
    }
}

fn check_type(ty: &Type) -> Result<()> {
    match ty {
        Type::Reference(reference) => {
            if let Some(lifetime) = &reference.lifetime {
                return Err(Error::new(
                    lifetime.span(),
                    "the connection lives as long as the transaction, which has no name here; leave the lifetime out",
                ));
            }
            if reference.mutability.is_none() {
                return Err(Error::new(ty.span(), "the connection is given as `&mut`"));
            }
            if let Type::ImplTrait(opaque) = &*reference.elem {
                return Err(Error::new(
                    opaque.span(),
                    "name the connection's type: it is the one of the keyspace or the manager",
                ));
            }
            Ok(())
        }
        other => Err(Error::new(
            other.span(),
            "the connection is given as `&mut ShardedConnection<..>` or `&mut AsyncShardedConnection<..>`",
        )),
    }
}

impl Arguments {
    /// The transaction builder with all that was asked for.
    fn builder(&self, kind: Kind) -> TokenStream {
        let krate = &self.krate;
        let mut builder = match &self.target {
            Target::Key { keyspace, key } => {
                let asked = asked(key);
                let checked = self.keyspace(keyspace, kind);
                quote_spanned!(keyspace.span()=> #checked.transaction_builder(#asked))
            }
            Target::Shard { shards, shard } => {
                let asked = asked(shard);
                let checked = self.manager(shards, kind);
                quote_spanned!(shards.span()=> #checked.transaction_builder(#asked))
            }
        };
        if let Some(level) = &self.isolation {
            builder.extend(quote!(.isolation(#krate::Isolation::#level)));
        }
        if self.read_only {
            builder.extend(quote!(.read_only()));
        }
        if self.immediate {
            builder.extend(quote!(.immediate()));
        }
        if let Some(retries) = &self.retries {
            let times = Ident::new("retries", Span::mixed_site().located_at(retries.span()));
            builder.extend(quote_spanned!(retries.span()=> .#times(#retries)));
        }
        builder
    }
}
