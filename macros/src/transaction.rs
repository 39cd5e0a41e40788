//! `#[sharded_transaction(..)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, FnArg, PatType, Result, Type};

use crate::arguments::{Arguments, Attribute, Target};
use crate::attempt;
use crate::routed::{asked, returns};
use crate::shape::{Body, Function, Output};

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut function: Function = syn::parse2(item)?;
    let arguments = Arguments::parse(Attribute::Transaction, arguments)?;
    let connection = take_connection(&mut function)?;
    let shape = function.shape()?;
    let output = &shape.output;
    let clones = match arguments.retries {
        Some(_) => attempt::clones(&mut function.signature, &function.block)?,
        None => TokenStream::new(),
    };
    let body = match &shape.body {
        Body::Blocking(block) => {
            let check = returns(&arguments.krate, output);
            let builder = arguments.builder();
            let arrow = output.arrow();
            quote! {
                #check
                #builder.run(|#connection| #arrow { #clones #block })
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
    let builder = arguments.builder();
    let arrow = output.arrow();
    quote! {
        #check
        #builder.run(async |#connection| #arrow { #clones #body }).await
    }
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
                parameter
                    .attrs
                    .retain(|attribute| !attribute.path().is_ident("conn"));
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

fn is_marked(parameter: &PatType) -> bool {
    parameter
        .attrs
        .iter()
        .any(|attribute| attribute.path().is_ident("conn"))
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
    fn builder(&self) -> TokenStream {
        let krate = &self.krate;
        let mut builder = match &self.target {
            Target::Key { keyspace, key } => {
                let asked = asked(key);
                quote_spanned!(keyspace.span()=> (#keyspace).transaction_builder(#asked))
            }
            Target::Shard { shards, shard } => {
                quote_spanned!(shards.span()=> (#shards).transaction_builder(#shard))
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
