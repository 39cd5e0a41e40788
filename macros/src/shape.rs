//! What kind of function an attribute stands on.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    AssocType, AttrStyle, Attribute, Block, Error, Expr, ExprAsync, ExprCall, Result, ReturnType,
    Signature, Stmt, Token, Type, Visibility, braced,
};

/// A function or method with a body.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) block: Block,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let visibility: Visibility = input.parse()?;
        if !(input.peek(Token![fn])
            || input.peek(Token![async])
            || input.peek(Token![const])
            || input.peek(Token![unsafe])
            || input.peek(Token![extern]))
        {
            return Err(input.error("this attribute stands on a function or a method"));
        }
        let signature: Signature = input.parse()?;
        if let Some(constness) = &signature.constness {
            return Err(Error::new(
                constness.span(),
                "a `const fn` cannot do database work",
            ));
        }
        if input.peek(Token![;]) {
            return Err(Error::new(
                signature.ident.span(),
                "this attribute wraps a body, and this method has none; put it on the implementation",
            ));
        }
        let content;
        let brace_token = braced!(content in input);
        // What the body says of itself, the function can say as well.
        for mut inner in content.call(Attribute::parse_inner)? {
            inner.style = AttrStyle::Outer;
            attributes.push(inner);
        }
        let block = Block {
            brace_token,
            stmts: content.call(Block::parse_within)?,
        };
        Ok(Self {
            attributes,
            visibility,
            signature,
            block,
        })
    }
}

impl Function {
    /// The function with another body.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let Self {
            attributes,
            visibility,
            signature,
            ..
        } = self;
        quote! { #(#attributes)* #visibility #signature { #body } }
    }

    /// How the body runs, and what it gives.
    ///
    /// # Errors
    ///
    /// Where the function cannot return an error, or returns a future that is not made here.
    pub(crate) fn shape(&self) -> Result<Shape> {
        let ReturnType::Type(_, declared) = &self.signature.output else {
            return Err(no_result());
        };
        if self.signature.asyncness.is_some() {
            return Ok(Shape {
                output: Output::new(declared)?,
                body: Body::Async(self.block.stmts.clone()),
            });
        }
        let Some(output) = future_output(declared) else {
            return Ok(Shape {
                output: Output::new(declared)?,
                body: Body::Blocking(self.block.clone()),
            });
        };
        let [before @ .., Stmt::Expr(last, None)] = self.block.stmts.as_slice() else {
            return Err(not_ours(declared));
        };
        let (boxed, future) = match last {
            Expr::Async(future) => (None, future),
            Expr::Call(call) => match argument(call) {
                Some(future) => (Some((*call.func).clone()), future),
                None => return Err(not_ours(declared)),
            },
            _ => return Err(not_ours(declared)),
        };
        Ok(Shape {
            output: Output::new(&output)?,
            body: Body::Future {
                before: before.to_vec(),
                boxed,
                future: marked_as_used(&future.block.stmts),
            },
        })
    }
}

/// The async block that a call of `Box::pin` is given.
fn argument(call: &ExprCall) -> Option<&ExprAsync> {
    let mut arguments = call.args.iter();
    match (arguments.next(), arguments.next()) {
        (Some(Expr::Async(future)), None) => Some(future),
        _ => None,
    }
}

/// `async_trait` moves each argument into the block by `let key = key;`. An argument that only the
/// attribute mentions would be reported as unused there.
fn marked_as_used(statements: &[Stmt]) -> Vec<Stmt> {
    let mut marked = Vec::with_capacity(statements.len());
    for statement in statements {
        marked.push(statement.clone());
        let Stmt::Local(local) = statement else {
            continue;
        };
        if let (syn::Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
            && matches!(&*init.expr, Expr::Path(path) if path.path.is_ident(&name.ident))
        {
            let name = &name.ident;
            marked.push(syn::parse_quote!(let _ = &#name;));
        }
    }
    marked
}

/// How the body of a function runs.
pub(crate) struct Shape {
    pub(crate) output: Output,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    /// On the caller's thread.
    Blocking(Block),
    /// The body of an `async fn`.
    Async(Vec<Stmt>),
    /// A plain function that ends in an `async` block, boxed or not: written by hand, or by an
    /// attribute such as `async_trait`.
    Future {
        before: Vec<Stmt>,
        boxed: Option<Expr>,
        future: Vec<Stmt>,
    },
}

/// The `Result` that the body gives.
pub(crate) struct Output {
    /// With `_` for what has no name.
    ty: Type,
    nameless: bool,
}

impl Output {
    fn new(declared: &Type) -> Result<Self> {
        if cannot_fail(declared) {
            return Err(no_result());
        }
        let mut ty = declared.clone();
        let mut nameless = Nameless(false);
        nameless.visit_type_mut(&mut ty);
        Ok(Self {
            ty,
            nameless: nameless.0,
        })
    }

    /// Whether a part of it has no name.
    pub(crate) fn is_nameless(&self) -> bool {
        self.nameless
    }

    /// `-> Type` for a closure, where the type can be written there.
    pub(crate) fn arrow(&self) -> TokenStream {
        if self.nameless {
            return TokenStream::new();
        }
        let ty = &self.ty;
        quote!(-> #ty)
    }
}

impl ToTokens for Output {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.ty.to_tokens(tokens);
    }
}

/// Puts `_` for each `impl Trait`, which only a signature may say.
struct Nameless(bool);

impl VisitMut for Nameless {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(_) = ty {
            *ty = syn::parse_quote!(_);
            self.0 = true;
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

/// Types that are certainly no `Result`, whatever is in scope.
fn cannot_fail(ty: &Type) -> bool {
    const PLAIN: [&str; 19] = [
        "bool", "char", "str", "String", "Option", "Vec", "Box", "i8", "i16", "i32", "i64", "i128",
        "isize", "u8", "u16", "u32", "u64", "f32", "f64",
    ];
    match ty {
        Type::Tuple(_) | Type::Never(_) | Type::Reference(_) | Type::Array(_) | Type::Slice(_) => {
            true
        }
        Type::ImplTrait(_) => true,
        Type::Paren(inner) => cannot_fail(&inner.elem),
        Type::Group(inner) => cannot_fail(&inner.elem),
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| PLAIN.iter().any(|plain| last.ident == plain)),
        _ => false,
    }
}

/// What a type that is a future gives in the end: `Pin<Box<dyn Future<Output = T>>>` and
/// `impl Future<Output = T>`.
fn future_output(ty: &Type) -> Option<Type> {
    struct Finder(Option<Type>);
    impl Visit<'_> for Finder {
        fn visit_assoc_type(&mut self, found: &AssocType) {
            if found.ident == "Output" && self.0.is_none() {
                self.0 = Some(found.ty.clone());
            }
        }
    }
    let mut finder = Finder(None);
    let is_future = match ty {
        Type::ImplTrait(_) => true,
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == "Pin"),
        Type::Paren(inner) => return future_output(&inner.elem),
        Type::Group(inner) => return future_output(&inner.elem),
        _ => false,
    };
    if is_future {
        visit::visit_type(&mut finder, ty);
    }
    finder.0
}

fn no_result() -> Error {
    Error::new(
        Span::call_site(),
        "the function must return a `Result` whose error is `From<diesel::result::Error>`: where the work must not go, the error has to go somewhere",
    )
}

fn not_ours(declared: &Type) -> Error {
    Error::new(
        declared.span(),
        "a future that is made elsewhere would be polled after the route is left; write an `async fn`, or end the body in an `async move` block",
    )
}
