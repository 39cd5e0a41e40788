//! Which arguments a body consumes, so that each run of it needs one of its own.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Error, Expr, ExprMacro, ExprReference, FnArg, PatIdent, Result, Signature, Type};

/// Statements that give the body its own clone of each argument it consumes.
///
/// An argument counts as consumed where the body mentions it other than behind a `&`. References
/// serve every run as they are.
///
/// # Errors
///
/// Where `self` is taken by value.
pub(crate) fn clones(signature: &mut Signature, block: &Block) -> Result<TokenStream> {
    let mut consumed = Consumed(Vec::new());
    consumed.visit_block(block);
    let mut bindings = Bindings {
        consumed: consumed.0,
        clones: TokenStream::new(),
    };
    for input in &mut signature.inputs {
        match input {
            FnArg::Receiver(receiver) if receiver.reference.is_none() && by_value(&receiver.ty) => {
                return Err(Error::new(
                    receiver.span(),
                    "with `retries` the body may run several times, and `self` is there once; take `&self`",
                ));
            }
            FnArg::Receiver(_) => {}
            FnArg::Typed(argument) if matches!(*argument.ty, Type::Reference(_)) => {}
            FnArg::Typed(argument) => bindings.visit_pat_mut(&mut argument.pat),
        }
    }
    Ok(bindings.clones)
}

fn by_value(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("Self"))
}

/// Clones what a pattern binds by value and the body consumes.
struct Bindings {
    consumed: Vec<Ident>,
    clones: TokenStream,
}

impl VisitMut for Bindings {
    fn visit_pat_ident_mut(&mut self, binding: &mut PatIdent) {
        if binding.by_ref.is_none() && self.consumed.contains(&binding.ident) {
            let name = &binding.ident;
            // It is the clone that the body changes.
            let mutability = binding.mutability.take();
            let at = Span::mixed_site().located_at(name.span());
            self.clones.extend(quote_spanned! {at=>
                let #mutability #name = ::core::clone::Clone::clone(&#name);
            });
        }
        visit_mut::visit_pat_ident_mut(self, binding);
    }
}

/// The names that are mentioned other than behind a `&`.
struct Consumed(Vec<Ident>);

impl Consumed {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut borrowed = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if !borrowed => self.0.push(name),
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
}

impl Visit<'_> for Consumed {
    fn visit_expr_reference(&mut self, borrow: &ExprReference) {
        if !matches!(*borrow.expr, Expr::Path(_)) {
            visit::visit_expr_reference(self, borrow);
        }
    }

    fn visit_expr_path(&mut self, path: &syn::ExprPath) {
        if let Some(name) = path.path.get_ident() {
            self.0.push(name.clone());
        }
    }

    fn visit_expr_macro(&mut self, call: &ExprMacro) {
        self.tokens(call.mac.tokens.clone());
    }

    fn visit_stmt_macro(&mut self, call: &syn::StmtMacro) {
        self.tokens(call.mac.tokens.clone());
    }
}
