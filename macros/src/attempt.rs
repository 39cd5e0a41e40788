//! Which arguments a body consumes, so that each run of it needs one of its own.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Error, Expr, ExprAsync, ExprClosure, ExprMacro, ExprReference, FnArg, PatIdent, Result, Type,
};

use crate::shape::{Body, Function};

/// Statements that give the body its own clone of each argument it consumes.
///
/// An argument counts as consumed where the body mentions it other than behind a `&`, or moves it into
/// a closure or a block. References serve every run as they are.
///
/// # Errors
///
/// Where `self` is taken by value, and where an asynchronous body changes something through a `&mut`.
pub(crate) fn clones(
    krate: &TokenStream,
    function: &mut Function,
    body: &Body,
) -> Result<TokenStream> {
    let mut mentioned = Consumed::default();
    mentioned.visit_block(&function.block);
    let mut bindings = Bindings {
        krate,
        consumed: mentioned.consumed,
        clones: TokenStream::new(),
    };
    let is_async = !matches!(body, Body::Blocking(_));
    for input in &mut function.signature.inputs {
        match input {
            FnArg::Receiver(receiver) if receiver.reference.is_none() && by_value(&receiver.ty) => {
                return Err(Error::new(
                    receiver.span(),
                    "with `retries` the body may run several times, and `self` is there once; take `&self`",
                ));
            }
            FnArg::Receiver(receiver) if is_async && is_exclusive(&receiver.ty) => {
                return Err(Error::new(receiver.span(), EXCLUSIVE));
            }
            FnArg::Receiver(_) => {}
            FnArg::Typed(argument) if is_async && is_exclusive(&argument.ty) => {
                return Err(Error::new(argument.ty.span(), EXCLUSIVE));
            }
            FnArg::Typed(argument) if matches!(*argument.ty, Type::Reference(_)) => {}
            FnArg::Typed(argument) => bindings.visit_pat_mut(&mut argument.pat),
        }
    }
    Ok(bindings.clones)
}

const EXCLUSIVE: &str = "with `retries` each run of an asynchronous body is a future of its own, and they cannot share a `&mut`; take `&`, or return what is to be changed and change it after the transaction";

fn is_exclusive(ty: &Type) -> bool {
    matches!(ty, Type::Reference(reference) if reference.mutability.is_some())
}

fn by_value(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("Self"))
}

/// Clones what a pattern binds by value and the body consumes.
struct Bindings<'a> {
    krate: &'a TokenStream,
    consumed: Vec<Ident>,
    clones: TokenStream,
}

impl VisitMut for Bindings<'_> {
    fn visit_pat_ident_mut(&mut self, binding: &mut PatIdent) {
        if binding.by_ref.is_none() && self.consumed.contains(&binding.ident) {
            let name = &binding.ident;
            // It is the clone that the body changes.
            let mutability = binding.mutability.take();
            let at = Span::mixed_site().located_at(name.span());
            let krate = self.krate;
            self.clones.extend(quote_spanned! {at=>
                let #mutability #name = #krate::__private::for_this_run(&#name);
            });
        }
        visit_mut::visit_pat_ident_mut(self, binding);
    }
}

/// The names that are mentioned other than behind a `&`.
#[derive(Default)]
struct Consumed {
    consumed: Vec<Ident>,
    /// In a closure or a block that takes whatever it mentions.
    moving: bool,
}

impl Consumed {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut borrowed = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if !borrowed || self.moving => self.consumed.push(name),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(sign) if sign.as_char() == '&' => {
                    borrowed = true;
                    continue;
                }
                _ => {}
            }
            borrowed = false;
        }
    }

    fn in_move(&mut self, moving: bool, visit: impl FnOnce(&mut Self)) {
        let outside = self.moving;
        self.moving |= moving;
        visit(self);
        self.moving = outside;
    }
}

/// `order` or `order.lines`: behind a `&` it is only looked at.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Paren(inner) => is_place(&inner.expr),
        _ => false,
    }
}

impl Visit<'_> for Consumed {
    fn visit_expr_reference(&mut self, borrow: &ExprReference) {
        // What one run changes, the next one must not find changed.
        if self.moving || borrow.mutability.is_some() || !is_place(&borrow.expr) {
            visit::visit_expr_reference(self, borrow);
        }
    }

    fn visit_expr_closure(&mut self, closure: &ExprClosure) {
        self.in_move(closure.capture.is_some(), |own| {
            visit::visit_expr_closure(own, closure);
        });
    }

    fn visit_expr_async(&mut self, block: &ExprAsync) {
        self.in_move(block.capture.is_some(), |own| {
            visit::visit_expr_async(own, block);
        });
    }

    fn visit_expr_path(&mut self, path: &syn::ExprPath) {
        if let Some(name) = path.path.get_ident() {
            self.consumed.push(name.clone());
        }
    }

    fn visit_expr_macro(&mut self, call: &ExprMacro) {
        self.tokens(call.mac.tokens.clone());
    }

    fn visit_stmt_macro(&mut self, call: &syn::StmtMacro) {
        self.tokens(call.mac.tokens.clone());
    }
}
