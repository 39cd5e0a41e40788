//! `#[routed(..)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Result;
use syn::spanned::Spanned;

use crate::arguments::{Arguments, Attribute, Target};
use crate::shape::{Body, Function, Output};

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let function: Function = syn::parse2(item)?;
    let arguments = Arguments::parse(Attribute::Routed, arguments)?;
    let shape = function.shape()?;
    let krate = &arguments.krate;
    let output = &shape.output;
    // Not to be mixed up with a name of the user's.
    let route = Ident::new("route", Span::mixed_site());
    let body = match &shape.body {
        Body::Blocking(block) => {
            let made = arguments.route(&TokenStream::new());
            let arrow = output.arrow();
            let check = returns(krate, output);
            quote! {
                #check
                match #made {
                    ::core::result::Result::Ok(#route) => #route.run(|| #arrow #block),
                    ::core::result::Result::Err(error) =>
                        ::core::result::Result::Err(#krate::__private::into_caller(error)),
                }
            }
        }
        Body::Async(statements) => in_future(&arguments, output, &quote!(#(#statements)*), &route),
        Body::Future {
            before,
            boxed,
            future,
        } => {
            let inner = in_future(&arguments, output, &quote!(#(#future)*), &route);
            quote! { #(#before)* #boxed (async move { #inner }) }
        }
    };
    Ok(function.with_body(&body))
}

/// What stands in an `async` body or block: the route first, then the body under it.
fn in_future(
    arguments: &Arguments,
    output: &Output,
    body: &TokenStream,
    route: &Ident,
) -> TokenStream {
    let krate = &arguments.krate;
    let made = arguments.route(&quote!(.await));
    let check = returns(krate, output);
    quote! {
        #check
        match #made {
            ::core::result::Result::Ok(#route) =>
                #krate::__private::in_route::<#output, _>(#route, async move { #body }).await,
            ::core::result::Result::Err(error) =>
                ::core::result::Result::Err(#krate::__private::into_caller(error)),
        }
    }
}

/// Says at the attribute what is wrong with the type that the function returns.
pub(crate) fn returns(krate: &TokenStream, output: &Output) -> TokenStream {
    // A type with a part that has no name cannot be named here.
    if output.is_nameless() {
        return TokenStream::new();
    }
    quote_spanned! {Span::call_site()=>
        let _ = #krate::__private::returns::<#output>;
    }
}

impl Arguments {
    /// `Result<Route, Error>`; `wait` is what has to follow where finding out is asynchronous.
    fn route(&self, wait: &TokenStream) -> TokenStream {
        let made = match &self.target {
            Target::Key { keyspace, key } => {
                let asked = asked(key);
                quote_spanned!(keyspace.span()=> (#keyspace).resolve(#asked) #wait)
            }
            Target::Shard { shards, shard } => {
                quote_spanned!(shards.span()=> (#shards).route(#shard))
            }
        };
        match &self.workload {
            None => made,
            Some(workload) => {
                quote_spanned! {workload.span()=> (#made).and_then(|route| route.workload(#workload)) }
            }
        }
    }
}

/// A key is looked at, not consumed.
pub(crate) fn asked(key: &syn::Expr) -> TokenStream {
    quote_spanned!(key.span()=> &(#key))
}
