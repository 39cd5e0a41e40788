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
            let made = arguments.route(Kind::Blocking);
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
    let made = arguments.route(Kind::Async);
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
    /// `Result<Route, Error>`.
    fn route(&self, kind: Kind) -> TokenStream {
        let made = match &self.target {
            Target::Key { keyspace, key } => {
                let asked = asked(key);
                let wait = match kind {
                    Kind::Blocking => None,
                    Kind::Async => Some(quote!(.await)),
                };
                let keyspace_span = keyspace.span();
                let keyspace = self.keyspace(keyspace, kind);
                quote_spanned!(keyspace_span=> #keyspace.resolve(#asked) #wait)
            }
            // Nothing waits here, so a manager of either driver will do.
            Target::Shard { shards, shard } => {
                let shard = asked(shard);
                let manager = self.checked(shards, "any_manager");
                quote_spanned!(shards.span()=> #manager.route(#shard))
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

/// Which driver a function works with.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Blocking,
    Async,
}

impl Arguments {
    /// The keyspace, which has to be one of the function's driver.
    pub(crate) fn keyspace(&self, keyspace: &syn::Expr, kind: Kind) -> TokenStream {
        self.checked(
            keyspace,
            match kind {
                Kind::Blocking => "blocking_keyspace",
                Kind::Async => "nonblocking_keyspace",
            },
        )
    }

    /// The manager, which has to be one of the function's driver.
    pub(crate) fn manager(&self, shards: &syn::Expr, kind: Kind) -> TokenStream {
        self.checked(
            shards,
            match kind {
                Kind::Blocking => "blocking_manager",
                Kind::Async => "nonblocking_manager",
            },
        )
    }

    /// A keyspace has methods of the names that a manager has, so what stands there is asked what it
    /// is. The method finds it behind references and smart pointers, as any call would.
    fn checked(&self, place: &syn::Expr, check: &str) -> TokenStream {
        let krate = &self.krate;
        let check = Ident::new(check, Span::call_site());
        quote_spanned! {place.span()=>
            #krate::__private::#check((#place).__keyspace_or_manager())
        }
    }
}

/// A key is looked at, not consumed.
pub(crate) fn asked(key: &syn::Expr) -> TokenStream {
    quote_spanned!(key.span()=> &(#key))
}
